#!/usr/bin/env python3
"""The fold of docs/FORMAT.md as a short program: what a task's messages and rewrites give as its views.

A JSON value is never parsed and written again: its text is cut out of the line, so it stays byte for byte.
check.py beside this reads and checks the logs, and runs this: python3 tests/oracle/check.py TASK_DIR
"""

import json

KEYS = {
    "assistant": "role content refusal audio name tool_calls".split(),
    "tool": "role content tool_call_id".split(),
}
INTERRUPTED = '{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":%s}'
scan = json.JSONDecoder(
    parse_int=str
).raw_decode  # gives (value, end); str: numbers may have any number of digits


def pieces(text):
    """The raw texts in a JSON array or object (key, value, key, value ...)."""
    found, at = [], 1
    while text[at] not in "]}":
        end = scan(text, at)[1]
        found.append(text[at:end])
        at = end + (text[end] in ",:")
    return found


def pairs(text):
    raw = pieces(text)
    return list(zip(raw[::2], raw[1::2]))


def fields(text):
    return {json.loads(key): value for key, value in pairs(text)}


def view(messages, rewrites, as_of):
    """Section 2.3: the messages of which the view consists."""
    newest = {"segments": [], "covers": "0"}
    for rewrite in rewrites:
        newest = rewrite if int(rewrite["after"]) <= as_of else newest
    for segment in newest["segments"]:
        if "literal" in segment:
            yield {**fields(segment["literal"]), "tokens": segment["tokens"]}
        elif "seq" in segment:
            yield {
                **messages[int(segment["seq"]) - 1],
                "content": segment["content"],
                "tokens": segment["tokens"],
            }
        else:
            a, b = map(int, pieces(segment["keep"]))
            spared = set(pieces(segment.get("except", "[]")))
            for message in messages[a - 1 : b]:
                trim = segment.get("trim_outputs") == "true" and message["role"] == '"tool"'
                if trim and message["seq"] not in spared:
                    ref = (
                        "ref=" + message["output_ref"][1:-1]
                        if "output_ref" in message
                        else "seq=" + message["seq"]
                    )
                    message = {**message, "content": f'"[tool output trimmed; {ref}]"', "tokens": "12"}
                yield message
    yield from messages[int(newest["covers"]) : as_of]


def show(message, answers):
    """Section 3: the line of current.jsonl for a message; answers: it is a result of the open group."""
    role, content = json.loads(message["role"]), message.get("content", "null")
    if role == "tool" and not answers:
        names = [
            message[key][1:-1]
            for key in ("tool_name", "name", "tool_call_id")
            if message.get(key, "")[:1] == '"'
        ]
        tag = "[Tool: %s]" % (names + ["unknown"])[0]
        if content[0] == '"':
            content = f'"{tag} {content[1:]}'
        elif content == "null":
            content = f'"{tag}"'
        else:
            content = "[" + ",".join([f'{{"type":"text","text":"{tag}"}}'] + pieces(content)) + "]"
        return f'{{"role":"user","content":{content}}}'
    if role == "tool" and content == "null":
        message = {**message, "content": '""'}
    if role == "assistant":
        extra = fields(message.get("extra", "{}"))
        message = {**message, **{key: extra[key] for key in ("refusal", "audio") if key in extra}}
    return (
        "{"
        + ",".join(
            f'"{key}":{message[key]}'
            for key in KEYS.get(role, ["role", "content", "name"])
            if key in message and (key, message[key]) != ("tool_calls", "[]")
        )
        + "}"
    )


def aside(message, number):
    """Section 3: the line of current.extra.jsonl for a message that is line `number`, or None."""
    hidden = ["tool_name", "name"] if message["role"] == '"tool"' else ["tool_name"]
    seen = ["refusal", "audio"] if message["role"] == '"assistant"' else []
    extra = [
        f"{key}:{value}" for key, value in pairs(message.get("extra", "{}")) if json.loads(key) not in seen
    ]
    found = [f'"{key}":{message[key]}' for key in hidden if key in message]
    found += ['"extra":{' + ",".join(extra) + "}"] if extra else []
    return f'{{"line":{number},"seq":{message["seq"]},{",".join(found)}}}' if found else None


def fold(messages, rewrites, as_of=None):
    """The views that follow from the messages and rewrites of a log, whose values are JSON text."""
    current, extra, tokens, waiting = (
        [],
        [],
        0,
        [],
    )  # waiting: the ids of the open group's calls without a result
    for message in view(messages, rewrites, len(messages) if as_of is None else as_of):
        answer = json.loads(message.get("tool_call_id", "null"))
        call = next((id for id in waiting if message["role"] == '"tool"' and json.loads(id) == answer), None)
        if call:
            waiting.remove(call)
        else:
            current += [INTERRUPTED % id for id in waiting]
            tokens += 10 * len(waiting)
            calls = pieces(message.get("tool_calls", "[]")) if message["role"] == '"assistant"' else []
            ids = [fields(call).get("id", "") for call in calls if call[0] == "{"]
            waiting = [id for id in ids if id[:1] == '"']
        current.append(show(message, call is not None))
        extra.append(aside(message, len(current)))
        tokens += int(message["tokens"])
    summaries = [
        segment["summary"] for rewrite in rewrites for segment in rewrite["segments"] if "summary" in segment
    ]
    found = {
        "current.jsonl": current,
        "current.extra.jsonl": filter(None, extra),
        "summaries.jsonl": summaries,
        "tokens": [str(tokens)],
    }
    return {name: "".join(line + "\n" for line in rows).encode() for name, rows in found.items()}
