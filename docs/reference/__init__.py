"""The reference, page by page, made from the code: `python -m docs.reference` writes it, `--check` only compares."""
