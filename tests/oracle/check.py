#!/usr/bin/env python3
"""Reads the logs of a task as docs/FORMAT.md says, and checks them and the views beside them.

check.py [--as-of SEQ] [--extra | --summaries | --tokens] TASK_DIR    prints a view (current.jsonl)
check.py --check TASK_DIR... (or -: from stdin)     checks the logs and compares the views on disk
"""

import argparse
import itertools
import os
import re
import sys
import zlib

from fold import fields, fold, pieces, scan

SHAPES = {  # the envelopes; N is a number, T is a time
    "messages.jsonl": '"seq":N,"role":"(?:system|developer|user|assistant|tool)","timestamp":T,"tokens":N,"durable_to":N'
    '|"event":"[a-z_]+","after":N,"timestamp":T,"durable_to":N',
    "tools.jsonl": '"seq":N,"timestamp":T,"durable_to":N',
    "planning.jsonl": '"id":N,"created_at":T,"durable_to":N',
}
TIME = r'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"'
SHAPES = {
    name: re.compile("{(?:%s)[,}]" % shape.replace("T", TIME).replace("N", "(?:0|[1-9][0-9]*)"))
    for name, shape in SHAPES.items()
}
FIELDS = "content tool_name tool_calls tool_call_id name pinned output_ref request_id extra".split()


def need(condition, problem):
    if not condition:
        raise ValueError(problem)


def lines(log, shape):
    """Section 1: (where, fields) of each line of a log."""
    *whole, rest = log.split(b"\n")  # not splitlines(): U+2028 is no line end
    need(not rest, "the last line has no end")
    offset = durable = 0
    for line in whole:
        where = f"offset {offset}: "
        need(len(line) < 32 << 20, where + "longer than 32 MiB")
        need(line[-18:] == b',"crc":"%08x"}' % zlib.crc32(line[:-18]), where + "wrong crc")
        text = (line[:-18] + b"}").decode()
        need(shape.match(text) and scan(text)[1] == len(text), where + "wrong envelope")
        found = fields(text)
        need(durable <= int(found["durable_to"]) <= offset, where + "wrong durable_to")
        durable, offset = int(found["durable_to"]), offset + len(line) + 1
        yield where, found


def count(messages, rewrites):
    """Sections 2.2 and 3: what `counted_tokens` of a usage event is that follows these."""
    answers = messages and messages[-1]["role"] == '"assistant"'
    answers = answers and not (rewrites and int(rewrites[-1]["after"]) == len(messages))
    return int(fold(messages, rewrites)["tokens"]) - (int(messages[-1]["tokens"]) if answers else 0)


def read(log):
    """Section 2: the messages and the rewrites in messages.jsonl."""
    messages, rewrites, usages, first = [], [], [], True
    for where, line in lines(log, SHAPES["messages.jsonl"]):
        need(first == (line.get("event") == '"started"'), where + "started is the first line and no other")
        need(not first or line["format_version"] == "1", where + "unknown format_version")
        first = False
        if "event" not in line:
            need(int(line["seq"]) == len(messages) + 1, where + "wrong seq")
            known = [key for key in line if key in FIELDS]
            need(known == sorted(known, key=FIELDS.index), where + "wrong order of fields")
            messages.append(line)
            continue
        need(int(line["after"]) == len(messages), where + "wrong after")
        if line["event"] == '"usage"' and "tools_tokens" in line:
            need(int(line["tools_tokens"]) > 0, where + "tools_tokens is left out where it is 0")
        if line["event"] == '"usage"' and "counted_tokens" in line:
            usages.append((where, len(messages), len(rewrites), int(line["counted_tokens"])))
        if line["event"] == '"rewrite"':
            need(
                int(line["ordinal"]) == int(line["base"]) + 1 == len(rewrites) + 1,
                where + "wrong ordinal or base",
            )
            need(int(line.get("parent", 0)) <= len(rewrites), where + "wrong parent")
            need(int(line["covers"]) <= len(messages), where + "wrong covers")
            line["segments"], last = [fields(segment) for segment in pieces(line["segments"])], 0
            for segment in line["segments"]:
                if "rewrite" in segment:  # from here on it has the literal itself, but not its summary record
                    target = rewrites[int(segment["rewrite"]) - 1]["segments"][int(segment["index"])]
                    need("literal" in target and "rewrite" not in target, where + "refers to no literal")
                    segment.update(literal=target["literal"], tokens=target["tokens"])
                elif "literal" not in segment:
                    a, b = (
                        map(int, pieces(segment["keep"])) if "keep" in segment else [int(segment["seq"])] * 2
                    )
                    need(last < a <= b <= int(line["covers"]), where + "wrong seqs in segments")
                    last = b
            rewrites.append(line)
    need(not first, "the log is empty")
    for where, seq, ordinal, counted in usages[-8:]:  # each takes a fold
        need(counted == count(messages[:seq], rewrites[:ordinal]), where + "wrong counted_tokens")
    return messages, rewrites


def load(task, name):
    path = os.path.join(task, name)
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def check(task):
    """Yields what is wrong with the logs and the views of a task."""
    if not os.path.exists(os.path.join(task, "messages.jsonl")):
        yield f"{task}: is not a task directory (there is no messages.jsonl)"
        return
    try:
        name = "messages.jsonl"
        views = fold(*read(load(task, name)))
        for name, number in ("tools.jsonl", "seq"), ("planning.jsonl", "id"):
            for n, (where, line) in enumerate(lines(load(task, name), SHAPES[name]), 1):
                need(int(line[number]) == n, where + "wrong " + number)
    except (ValueError, KeyError, IndexError, RecursionError) as problem:
        yield f"{task}/{name}: {problem!r}"
        return
    for name in "current.jsonl", "current.extra.jsonl", "summaries.jsonl":
        both = itertools.zip_longest(
            load(task, name).splitlines(True), views[name].splitlines(True), fillvalue=b""
        )
        differ = next(((n, a, b) for n, (a, b) in enumerate(both, 1) if a != b), None)
        if differ:
            yield f"{task}/{name}: line {differ[0]}: found {differ[1][:400]!r}, expected {differ[2][:400]!r}"
    if not views["current.extra.jsonl"] and os.path.exists(os.path.join(task, "current.extra.jsonl")):
        yield f"{task}/current.extra.jsonl: line 1: exists only if it has a line"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag in "--extra", "--summaries", "--tokens", "--check":
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--as-of", type=int, metavar="SEQ")
    parser.add_argument("tasks", nargs="+", metavar="TASK_DIR")
    args = parser.parse_args()
    if not args.check:
        name = (
            "current.extra.jsonl" if args.extra else "summaries.jsonl" if args.summaries else "current.jsonl"
        )
        views = fold(*read(load(args.tasks[0], "messages.jsonl")), args.as_of)
        sys.stdout.buffer.write(views["tokens" if args.tokens else name])
        return 0
    checked = wrong = 0
    for task in itertools.chain.from_iterable(sys.stdin if task == "-" else [task] for task in args.tasks):
        problems = list(check(task.rstrip("\n")))
        checked, wrong = checked + 1, wrong + bool(problems)
        print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{checked} checked, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
