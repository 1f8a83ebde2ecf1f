"""Bytes: the cursor that decoders read through, text of names, buffers, Arrow in and out."""
