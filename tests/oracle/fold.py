#!/usr/bin/env python3
"""The fold of docs/FORMAT.md as a short program: what a task's messages and rewrites give as its views.

A JSON value is never parsed and written again: its text is cut out of the line, so it stays byte for byte.
check.py beside this reads and checks the logs, and runs this: python3 tests/oracle/check.py TASK_DIR
"""

import json

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


def kind_of(value, first):
    return (value or "")[:1] == first


def plain(text):
    """A name that every provider takes, or nothing."""
    return "".join(c if c.isascii() and c.isalnum() or c == "-" else "_" for c in text[:64])


def named(value):
    """A name as it is shown: raw, or None."""
    if not kind_of(value, '"'):
        return None
    given = json.loads(value)
    return value if plain(given) == given and given else f'"{plain(given)}"' if given else None


MEDIA = {
    "image_url": (["url"], {"detail": ["auto", "low", "high", "original"]}),
    "input_audio": (["data", "format"], {"format": ["wav", "mp3"]}),
    "file": ([], {}),
}


def media(kind, inner):
    """The fields of an image, a sound or a file that are shown, or None if it is none."""
    if kind not in MEDIA:
        return None
    required, words = MEDIA[kind]
    order = {"file": ["file_data", "file_id", "filename"], "image_url": ["url", "detail"]}.get(kind, required)
    shown = {key: inner[key] for key in order if kind_of(inner.get(key), '"')}
    shown = {
        key: value
        for key, value in shown.items()
        if key not in words or value in [f'"{word}"' for word in words[key]]
    }
    if "file_data" in shown:
        shown.pop("file_id", None)
    enough = shown.keys() & {"file_data", "file_id"} if kind == "file" else shown.keys() >= set(required)
    return shown if enough else None


def part(raw, role):
    """Section 3: a part as it is shown, and whether something of it is not."""
    own = fields(raw) if raw[0] == "{" else {}
    text = {key: value for key, value in own.items() if kind_of(value, '"')}
    kind = json.loads(text["type"]) if "type" in text else "part"
    mark = own.get("prompt_cache_breakpoint")
    mark = f',"prompt_cache_breakpoint":{mark}' if kind_of(mark, "{") else ""
    if kind == "text" and "text" in text:
        others = own.keys() - {"type", "text", "prompt_cache_breakpoint"}
        return f'{{"type":"text","text":{text["text"]}{mark}}}', bool(others)
    if kind == "refusal" and role == "assistant" and "refusal" in text:
        return f'{{"type":"refusal","refusal":{text["refusal"]}}}', bool(own.keys() - {"type", "refusal"})
    inner = fields(own[kind]) if kind_of(own.get(kind), "{") else None
    shown = media(kind, inner) if role == "user" and inner is not None else None
    if shown:
        listed = ",".join(f'"{key}":{value}' for key, value in shown.items())
        others = own.keys() - {"type", kind, "prompt_cache_breakpoint"} or inner.keys() - shown.keys()
        return f'{{"type":"{kind}","{kind}":{{{listed}}}{mark}}}', bool(others)
    note = text.get("text", '"[%s omitted]"' % (text["type"][1:-1] if "type" in text else "part"))
    return f'{{"type":"text","text":{note}}}', True


def mend(content, role):
    """Section 3: content as it is shown, and whether something of it is not."""
    if kind_of(content, '"'):
        return content, False
    parts = [part(raw, role) for raw in pieces(content)] if kind_of(content, "[") else []
    return (f"[{','.join(raw for raw, _ in parts)}]" if parts else '""'), any(lost for _, lost in parts)


def calls_of(message):
    """Section 3: the calls of a message as (asked id, shown id, shown call), and whether something is not shown."""
    shown, used, lost = [], [], False
    raw = message.get("tool_calls", "[]") if message["role"] == '"assistant"' else "[]"
    for index, call in enumerate(pieces(raw) if raw[0] == "[" else []):
        own = fields(call) if call[0] == "{" else {"type": "0"}
        kinds = {"null": "function", '"function"': "function", '"custom"': "custom"}
        kind = kinds.get(own.get("type", "null"))
        if not kind or not kind_of(own.get(kind), "{"):
            lost = True
            continue
        inner, field = fields(own[kind]), {"function": "arguments", "custom": "input"}[kind]
        name = named(inner.get("name")) or '"unknown"'
        given = inner.get(field) if kind_of(inner.get(field), '"') else None
        asked = own["id"] if kind_of(own.get("id"), '"') else None
        text = json.loads(asked) if asked else ""
        fits = 1 <= len(text) <= 40 and text not in used
        if not fits:
            text = f"call_{message['seq']}_{index}"
            while text in used:
                text += "x"
        id = asked if fits else f'"{text}"'
        used.append(text)
        others = own.keys() - {"id", "type", kind} or inner.keys() - {"name", field}
        lost = bool(lost or not fits or name != inner.get("name") or given is None or others)
        body = f'{{"name":{name},"{field}":{given or chr(34) * 2}}}'
        shown.append((asked, id, f'{{"id":{id},"type":"{kind}","{kind}":{body}}}'))
    return shown, lost


def lifted(message):
    """Fields of `extra` that are shown of an assistant, and those that are shown whole."""
    extra = fields(message.get("extra", "{}")) if message["role"] == '"assistant"' else {}
    shown, whole = {}, set()
    if extra.get("refusal", "")[:1] in ('"', "n"):
        shown["refusal"] = extra.get("refusal")
        whole.add("refusal")
    audio = extra.get("audio", "")
    inner = fields(audio) if audio[:1] == "{" else {}
    if audio == "null" or kind_of(inner.get("id"), '"'):
        shown["audio"] = audio if audio == "null" else f'{{"id":{inner["id"]}}}'
        whole |= {"audio"} if audio == "null" or len(inner) == 1 else set()
    return {key: value for key, value in shown.items() if value}, whole & extra.keys()


def show(message, answered):
    """Section 3: the line of current.jsonl for a message; answered: the id of the open call that it is a result of."""
    role, content = json.loads(message["role"]), message.get("content", "null")
    shown = {"role": message["role"]}
    if role == "tool" and not answered:
        names = [
            message[key][1:-1]
            for key in ("tool_name", "name", "tool_call_id")
            if kind_of(message.get(key), '"')
        ]
        tag = "[Tool: %s]" % (names + ["unknown"])[0]
        mended = mend(content, "user")[0]
        if mended[0] == "[":
            mended = f'[{{"type":"text","text":"{tag}"}},{mended[1:]}'
        else:
            mended = f'"{tag} {mended[1:]}' if content[0] == '"' else f'"{tag}"'
        return f'{{"role":"user","content":{mended}}}'
    calls = calls_of(message)[0]
    if calls and content == "null":
        shown.update({"content": content} if "content" in message else {})
    else:
        shown["content"] = mend(content, role)[0]
    shown.update(lifted(message)[0])
    name = named(message.get("name"))
    shown.update({"name": name} if name and role != "tool" else {})
    shown.update({"tool_call_id": answered} if answered else {})
    shown.update({"tool_calls": f"[{','.join(call for _, _, call in calls)}]"} if calls else {})
    return "{" + ",".join(f'"{key}":{value}' for key, value in shown.items()) + "}"


def aside(message, number, answered):
    """Section 3: the line of current.extra.jsonl for a message that is line `number`, or None."""
    role = json.loads(message["role"])
    beside = {"tool_name"} & message.keys()
    if "name" in message and (role == "tool" or named(message["name"]) != message["name"]):
        beside.add("name")
    content = message.get("content", "null")
    if (role != "tool" or answered) and mend(content, role)[1]:
        beside.add("content")
    if calls_of(message)[1]:
        beside.add("tool_calls")
    extra = [
        f"{key}:{value}"
        for key, value in pairs(message.get("extra", "{}"))
        if json.loads(key) not in lifted(message)[1]
    ]
    keys = [key for key in ("tool_name", "name", "content", "tool_calls") if key in beside]
    found = [f'"{key}":{message[key]}' for key in keys]
    found += ['"extra":{' + ",".join(extra) + "}"] if extra else []
    return f'{{"line":{number},"seq":{message["seq"]},{",".join(found)}}}' if found else None


def fold(messages, rewrites, as_of=None):
    """The views that follow from the messages and rewrites of a log, whose values are JSON text."""
    # waiting: the open group's calls without a result, as (asked id, shown id)
    current, extra, tokens, waiting = [], [], 0, []
    for message in view(messages, rewrites, len(messages) if as_of is None else as_of):
        answer = json.loads(message.get("tool_call_id", "null")) if message["role"] == '"tool"' else None
        call = next((c for c in waiting if answer is not None and c[0] and json.loads(c[0]) == answer), None)
        if call:
            waiting.remove(call)
        else:
            current += [INTERRUPTED % id for _, id in waiting]
            tokens += 10 * len(waiting)
            waiting = [(asked, id) for asked, id, _ in calls_of(message)[0]]
        answered = call and call[1]
        current.append(show(message, answered))
        extra.append(aside(message, len(current), answered))
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
