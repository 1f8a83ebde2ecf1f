"""Spark: a session with lean local settings, and the Java that it runs on."""

# The function takes the name of its module: `deltaic.spark.session(...)` is the call.
from deltaic.spark.session import session

__all__ = ["session"]
