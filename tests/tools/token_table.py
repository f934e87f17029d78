#!/usr/bin/env python3
"""Counts the texts of tests/data/tokens/corpus.jsonl with tiktoken and writes the counts beside them.

    npm pack js-tiktoken@1.0.21 && tar xzf js-tiktoken-1.0.21.tgz
    pip install tiktoken==0.14.0
    token_table.py package/dist/ranks

tiktoken downloads its vocabularies; here they are put together from the ranks in the npm package, and tiktoken
checks them against the checksums of what OpenAI published.
"""

import base64
import hashlib
import json
import os
import pathlib
import sys
import tempfile

import tiktoken

CORPUS = pathlib.Path(__file__).parents[1] / "data" / "tokens" / "corpus.jsonl"
SOURCE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


def vocabulary(script):
    """The lines of a .tiktoken file: in the package they stand as `! FIRST_RANK TOKEN TOKEN …`."""
    ranks = json.loads(script.read_text().removeprefix("export default ").rstrip().rstrip(";"))["bpe_ranks"]
    for line in ranks.splitlines():
        _, first, *tokens = line.split(" ")
        for rank, token in enumerate(tokens, int(first)):
            base64.b64decode(token, validate=True)
            yield f"{token} {rank}\n".encode()


def main():
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TIKTOKEN_CACHE_DIR"] = cache
        encodings = {}
        for name in "o200k", "cl100k":
            key = hashlib.sha1(SOURCE.format(name + "_base").encode()).hexdigest()
            lines = vocabulary(pathlib.Path(sys.argv[1]) / f"{name}_base.js")
            (pathlib.Path(cache) / key).write_bytes(b"".join(lines))
            encodings[name] = tiktoken.get_encoding(name + "_base")
        rows = [json.loads(line) for line in CORPUS.read_text().splitlines()]
        for row in rows:
            for name, encoding in encodings.items():
                row[name] = len(encoding.encode(row["text"], disallowed_special=()))
        lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
        CORPUS.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
