"""Producers that restart, change their model at work or publish by key: followers end where a fresh consumer begins."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.consumer import Consumer
from deltaic.producer import Producer, SchemaAppend, count_up
from deltaic.schema.model import Model
from deltaic.storage.urls import open_store
from tests.unit.append.histories import content

KINDS = {"int": 7, "long": 1 << 40, "double": 0.5, "string": "Größe", "boolean": True}


def model_of(fields):
    return Model.parse(
        "T @PrimaryKey(id) { int id; " + " ".join(f"{kind} {name};" for name, kind in fields.items()) + " }"
    )


def row(number, fields, salt):
    source = random.Random(f"{number} {salt}")
    values = {name: None if source.random() < 0.3 else KINDS[kind] for name, kind in fields.items()}
    return {"id": number, **values}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["given", "canonical"]))
def test_followers_of_random_producers_end_where_a_fresh_consumer_begins(seed, order):
    source = random.Random(seed)
    store, fields, used = open_store("memory:"), {}, 0
    options = SchemaAppend(compression=source.choice([None, "zstd"]), all_fields=source.random() < 0.2)

    def started():
        return Producer(
            store, model_of(fields), versions=count_up, order=order, schema_append=options, target_shard_bytes=100
        )

    producer = started()
    followers = {}
    ids = list(range(10))
    for _ in range(5):
        for _ in range(source.randrange(3)):
            used += 1
            fields[f"f{used}"] = source.choice(list(KINDS))
        if fields and source.random() < 0.3:
            del fields[source.choice(list(fields))]
        if source.random() < 0.5:
            producer.close()
            producer = started()
        else:
            producer.change_model(model_of(fields))
        if producer.restore() is not None and source.random() < 0.4:
            with producer.incremental() as changes:
                for number in source.sample(range(20), 3):
                    changes.add_or_modify(row(number, fields, source.random()), type_name="T")
        else:
            ids = [number for number in ids if source.random() < 0.9] + [source.randrange(100, 200)]
            producer.publish([row(number, fields, source.choice("ab")) for number in dict.fromkeys(ids)], type_name="T")
        follower = Consumer(store, cache_dir=False, share=False, double_snapshot=False)
        follower.refresh()
        followers[follower.version] = follower
        expected = content(follower.state)
        for each in followers.values():
            each.refresh()
            assert content(each.state) == expected
    producer.close()
