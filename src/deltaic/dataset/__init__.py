"""The root object: model and chain of a dataset together."""

from deltaic.dataset.dataset import Dataset, DatasetVersion, list_datasets, open_dataset

__all__ = ["Dataset", "DatasetVersion", "list_datasets", "open_dataset"]
