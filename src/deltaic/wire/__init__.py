"""Byte formats: blobs, their headers, sections and shards."""
