#!/usr/bin/env python3
"""Writes the golden files tests/data/format-v1* (FORMAT.md, version 1): golden.py [TESTS_DATA_DIR]

It knows nothing of fold.py: every expected view below was written by hand, from the log next to it.
In all texts, <LS> <PS> <NEL> <DEL> stand for the raw characters U+2028, U+2029, U+0085, U+007F.
Golden files of a released version are never changed; add new ones.
"""

import os
import sys
import zlib

RAW = {"<LS>": "\u2028", "<PS>": "\u2029", "<NEL>": "\u0085", "<DEL>": "\u007f"}


def raw(text):
    for name, character in RAW.items():
        text = text.replace(name, character)
    return text.encode()


class Log:
    """A log file in the making. Every third line, what is there is taken to be synced."""

    def __init__(self):
        self.bytes, self.durable, self.lines, self.seq = b"", 0, 0, 0

    def add(self, envelope, caller=""):
        time = f"2026-11-16T03:{15 + self.lines // 60:02}:{self.lines % 60:02}.123456Z"
        body = raw(
            "{"
            + envelope.replace("TIME", time)
            + f',"durable_to":{self.durable}'
            + ("," + caller if caller else "")
        )
        self.bytes += body + b',"crc":"%08x"}\n' % zlib.crc32(body)
        self.lines += 1
        if self.lines % 3 == 0:
            self.durable = len(self.bytes)

    def message(self, role, tokens, caller=""):
        self.seq += 1
        self.add(f'"seq":{self.seq},"role":"{role}","timestamp":"TIME","tokens":{tokens}', caller)

    def event(self, kind, caller):
        self.add(f'"event":"{kind}","after":{self.seq},"timestamp":"TIME"', caller)

    def start(self, uuid, version=1, generation=1):
        self.event("started", f'"uuid":"{uuid}","format_version":{version}')
        self.lease(generation, "start")

    def lease(self, generation, reason, instance="i-1"):
        self.event(
            "lease",
            f'"generation":{generation},"holder":{{"instance_id":"{instance}","process_id":4242,'
            f'"hostname":"builder-1"}},"reason":"{reason}"',
        )

    def tool(self, caller):
        self.seq += 1
        self.add(f'"seq":{self.seq},"timestamp":"TIME"', caller)

    def plan(self, caller):
        self.seq += 1
        self.add(f'"id":{self.seq},"created_at":"TIME"', caller)


def metadata(uuid, task_id, version=1, config="{}"):
    return raw(
        f'{{"format_version":{version},"uuid":"{uuid}","task_key":{{"task_source":"github","owner":"acme",'
        f'"repo":"widgets","task_type":"issue","task_id":"{task_id}"}},"repository":"acme/widgets","user":"alice",'
        f'"created_at":"2026-11-16T03:15:00.000000Z","process_id":4242,"hostname":"builder-1","config":{config}}}\n'
    )


FILES = {}  # path under tests/data -> bytes


def task(folder, uuid, log, current, extra="", summaries="", task_id="1", version=1, config="{}", **more):
    here = f"{folder}/{uuid}/"
    FILES[here + "metadata.json"] = metadata(uuid, task_id, version, config)
    FILES[here + "messages.jsonl"] = log.bytes
    FILES[here + "current.jsonl"] = raw(current.lstrip("\n"))
    for name, content in ("current.extra.jsonl", extra), ("summaries.jsonl", summaries):
        if content:
            FILES[here + name] = raw(content.lstrip("\n"))
    for name, content in more.items():
        FILES[here + name.replace("__", "/").replace("_jsonl", ".jsonl").replace("_txt", ".txt")] = content


def as_of(uuid, seq, current):
    FILES[f"format-v1-as-of/{uuid}.{seq}.jsonl"] = raw(current.lstrip("\n"))


# ---------------------------------------------------------------------------------------------------------------------
# 1. Rendering: all roles and contents, groups, orphans, extra fields. No rewrite.
UUID = "01932f1a-7b00-7a01-8a01-000000000001"
log = Log()
log.start(UUID)
log.event(
    "config",
    r'"config":{"max_tokens":128000,"strategy":"summarize"},"request_id":"rq-config",'
    r'"request_digest":"00112233445566778899aabbccddeeff"',
)
log.message("system", 6, r'"content":"You are an agent.","name":"policy"')  # 1
log.message("developer", 5, r'"content":"Prefer short answers."')  # 2
log.message(
    "user",
    40,
    r'"content":"caf\u00e9 café \/ / 😀 \ud83d\ude00 [<LS><PS><NEL><DEL>] \u2028\n\t\"'  # 3
    r',\"crc\":\"00000000\"}","pinned":true,"request_id":"rq-1"',
)
log.message(
    "user",
    30,
    r'"content":[{"type":"text","text":"see \u00E9"},{"type":"image_url","image_url":'  # 4
    r'{"url":"data:image\/png;base64,iVBORw0KGgo="}}],"name":"alice","extra":{"big":'
    r'123456789012345678901234567890,"float":1.0e5,"minus":-0,"E":1E+2,"caf\u00e9":{"a":[1,{}]},'
    r'"refusal":"of a user","seq":99,"crc":"00000000"}',
)
log.message(
    "assistant",
    20,
    r'"content":null,"tool_calls":[{"id":"call_a","type":"function","function":{"name":'  # 5
    r'"read","arguments":"{\"path\":\"a\\b\"}"}},{"id":"call_b","type":"function",'
    r'"function":{"name":"list","arguments":"{}"},"index":1.50}],"extra":{"refusal":null}',
)
log.event(
    "usage",
    r'"input_tokens":120,"output_tokens":20,"cache_creation_tokens":5,"cache_read_tokens":7,"model":"new field"',
)
log.message(
    "tool", 3, r'"content":"file a","tool_name":"read","tool_call_id":"call_a","output_ref":"out-0001"'
)  # 6
log.event("statistics", r'"llm_calls":1,"tool_calls":2,"tokens":152,"compressions":0')
log.message("tool", 4, r'"content":[{"type":"text","text":"b"}],"tool_call_id":"call_b","name":"list"')  # 7
log.message(
    "assistant",
    9,
    r'"content":"I can\/cannot","name":"bot","pinned":true,"extra":{"reasoning_content":'  # 8
    r'"h\u006dm","audio":{"id":"audio_1","expires_at":1.70e9},"x":null,"refusal":"no\/"}',
)
log.message("user", 1, r'"name":"bob"')  # 9
log.message("assistant", 1, r'"tool_calls":[]')  # 10
log.message(
    "assistant",
    15,
    r'"tool_calls":[{"id":"c1","type":"function","function":{"name":"x","arguments":""}},'  # 11
    r'{"id":"c\u0032","type":"function","function":{"name":"y","arguments":""}},{"id":'
    r'"c\/3","type":"function","function":{"name":"z","arguments":""}}],"extra":{"audio":null}',
)
log.event(
    "pin", r'"seq":3,"pinned":false,"request_id":"rq-pin","request_digest":"ffeeddccbbaa99887766554433221100"'
)
log.message("tool", 1, r'"tool_call_id":"c2"')  # 12
log.message("user", 2, r'"content":"stop","tool_name":"odd","name":"carol"')  # 13
log.event("pin", r'"seq":13,"pinned":true')
log.message(
    "tool", 3, r'"content":"late \u00e9","tool_name":"gr\u0065p \"x\"","tool_call_id":"c1","name":"n"'
)  # 14
log.message(
    "assistant",
    7,
    r'"content":"","tool_calls":[{"id":"d","type":"custom","custom":{"name":"q",'  # 15
    r'"input":""}}]',
)
log.message("tool", 2, r'"content":"one","tool_call_id":"d"')  # 16
log.message("tool", 2, r'"content":[{"type":"text","text":"two"}],"tool_name":"q","tool_call_id":"d"')  # 17
log.message("tool", 1, r'"content":null')  # 18
log.message("tool", 1, r'"content":"","tool_call_id":"call_zz"')  # 19
log.message("tool", 1, r'"content":[],"tool_call_id":"call_zz","name":"fn","extra":{"is_error":true}')  # 20
log.message("tool", 1, r'"tool_name":""')  # 21
log.message(
    "assistant",
    8,
    r'"content":[{"type":"text","text":"parts"}],"tool_calls":[{"id":"dup","type":"function",'  # 22
    r'"function":{"name":"f","arguments":"1"}},{"id":"dup","type":"function","function":'
    r'{"name":"f","arguments":"2"}}]',
)
log.message("tool", 1, r'"content":"first","tool_call_id":"dup"')  # 23
log.message("tool", 1, r'"content":"second","tool_call_id":"dup"')  # 24
log.message(
    "assistant",
    8,
    r'"content":null,"tool_calls":[{"id":"e","type":"function","function":{"name":"f",'  # 25
    r'"arguments":""}},{"id":"f","type":"function","function":{"name":"f","arguments":""}}]',
)
log.message("tool", 1, r'"content":"e","tool_call_id":"e"')  # 26
log.message("tool", 1, r'"content":"e again","tool_call_id":"e"')  # 27
log.message("tool", 1, r'"content":"f too late","tool_call_id":"f"')  # 28
log.message(
    "assistant",
    4,
    r'"content":null,"tool_calls":[{"id":"g","type":"function","function":{"name":"f",'  # 29
    r'"arguments":""}}]',
)
log.message(
    "assistant",
    8,
    r'"content":null,"tool_calls":[{"id":"g","type":"function","function":{"name":"f",'  # 30
    r'"arguments":""}},{"id":"caf\u00e9","type":"function","function":{"name":"f","arguments":""}},'
    r'{"id":"open","type":"function","function":{"name":"f","arguments":""}}]',
)
log.message("tool", 1, r'"content":"any order","tool_call_id":"café","extra":{"refusal":"of a tool"}')  # 31
log.message("tool", 1, r'"content":"g","tool_call_id":"g"')  # 32

tools = Log()
tools.tool(
    r'"tool_name":"read","arguments":{"path":"a\\b","n":1.0e5},"output_ref":"out-0001","status":"success","duration_ms":12,"message_seq":6'
)
tools.tool(
    r'"tool_name":"list","arguments":{},"result":[{"big":123456789012345678901234567890}],"status":"success","duration_ms":0,"request_id":"rq-t2"'
)
tools.tool(
    r'"tool_name":"grep","arguments":{"re":"\u00e9\/"},"result":null,"status":"error","error":"caf\u00e9 <LS> 😀","duration_ms":5,"message_seq":14,"request_id":"rq-t3"'
)
plans = Log()
plans.plan(r'"plan_type":"initial","plan_content":{"steps":["a","b\/"],"weight":1.0e5},"request_id":"rq-p1"')
plans.plan(r'"plan_type":"revision","plan_content":"text \u00e9 <LS>"')

CURRENT_1 = r"""
{"role":"system","content":"You are an agent.","name":"policy"}
{"role":"developer","content":"Prefer short answers."}
{"role":"user","content":"caf\u00e9 café \/ / 😀 \ud83d\ude00 [<LS><PS><NEL><DEL>] \u2028\n\t\",\"crc\":\"00000000\"}"}
{"role":"user","content":[{"type":"text","text":"see \u00E9"},{"type":"image_url","image_url":{"url":"data:image\/png;base64,iVBORw0KGgo="}}],"name":"alice"}
{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\\b\"}"}},{"id":"call_b","type":"function","function":{"name":"list","arguments":"{}"}}]}
{"role":"tool","content":"file a","tool_call_id":"call_a"}
{"role":"tool","content":[{"type":"text","text":"b"}],"tool_call_id":"call_b"}
{"role":"assistant","content":"I can\/cannot","refusal":"no\/","audio":{"id":"audio_1"},"name":"bot"}
{"role":"user","content":"","name":"bob"}
{"role":"assistant","content":""}
{"role":"assistant","audio":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"x","arguments":""}},{"id":"c\u0032","type":"function","function":{"name":"y","arguments":""}},{"id":"c\/3","type":"function","function":{"name":"z","arguments":""}}]}
{"role":"tool","content":"","tool_call_id":"c\u0032"}
{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":"c1"}
{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":"c\/3"}
{"role":"user","content":"stop","name":"carol"}
{"role":"user","content":"[Tool: gr\u0065p \"x\"] late \u00e9"}
{"role":"assistant","content":"","tool_calls":[{"id":"d","type":"custom","custom":{"name":"q","input":""}}]}
{"role":"tool","content":"one","tool_call_id":"d"}
{"role":"user","content":[{"type":"text","text":"[Tool: q]"},{"type":"text","text":"two"}]}
{"role":"user","content":"[Tool: unknown]"}
{"role":"user","content":"[Tool: call_zz] "}
{"role":"user","content":"[Tool: fn]"}
{"role":"user","content":"[Tool: ]"}
{"role":"assistant","content":[{"type":"text","text":"parts"}],"tool_calls":[{"id":"dup","type":"function","function":{"name":"f","arguments":"1"}},{"id":"call_22_1","type":"function","function":{"name":"f","arguments":"2"}}]}
{"role":"tool","content":"first","tool_call_id":"dup"}
{"role":"tool","content":"second","tool_call_id":"call_22_1"}
{"role":"assistant","content":null,"tool_calls":[{"id":"e","type":"function","function":{"name":"f","arguments":""}},{"id":"f","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"e","tool_call_id":"e"}
{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":"f"}
{"role":"user","content":"[Tool: e] e again"}
{"role":"user","content":"[Tool: f] f too late"}
{"role":"assistant","content":null,"tool_calls":[{"id":"g","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":"g"}
{"role":"assistant","content":null,"tool_calls":[{"id":"g","type":"function","function":{"name":"f","arguments":""}},{"id":"caf\u00e9","type":"function","function":{"name":"f","arguments":""}},{"id":"open","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"any order","tool_call_id":"caf\u00e9"}
{"role":"tool","content":"g","tool_call_id":"g"}
"""
EXTRA_1 = r"""
{"line":4,"seq":4,"extra":{"big":123456789012345678901234567890,"float":1.0e5,"minus":-0,"E":1E+2,"caf\u00e9":{"a":[1,{}]},"refusal":"of a user","seq":99,"crc":"00000000"}}
{"line":5,"seq":5,"tool_calls":[{"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\\b\"}"}},{"id":"call_b","type":"function","function":{"name":"list","arguments":"{}"},"index":1.50}]}
{"line":6,"seq":6,"tool_name":"read"}
{"line":7,"seq":7,"name":"list"}
{"line":8,"seq":8,"extra":{"reasoning_content":"h\u006dm","audio":{"id":"audio_1","expires_at":1.70e9},"x":null}}
{"line":15,"seq":13,"tool_name":"odd"}
{"line":16,"seq":14,"tool_name":"gr\u0065p \"x\"","name":"n"}
{"line":19,"seq":17,"tool_name":"q"}
{"line":22,"seq":20,"name":"fn","extra":{"is_error":true}}
{"line":23,"seq":21,"tool_name":""}
{"line":24,"seq":22,"tool_calls":[{"id":"dup","type":"function","function":{"name":"f","arguments":"1"}},{"id":"dup","type":"function","function":{"name":"f","arguments":"2"}}]}
{"line":35,"seq":31,"extra":{"refusal":"of a tool"}}
"""
task(
    "format-v1/running",
    UUID,
    log,
    CURRENT_1,
    EXTRA_1,
    task_id="101",
    tools_jsonl=tools.bytes,
    planning_jsonl=plans.bytes,
    config='{"max_tokens":128000}',
    **{"outputs__out-0001": b"file a\n"},
)
as_of(UUID, 0, "")
as_of(
    UUID, 11, "".join(line + "\n" for line in CURRENT_1.strip("\n").split("\n")[:11])
)  # open: nothing is inserted
as_of(UUID, 12, "".join(line + "\n" for line in CURRENT_1.strip("\n").split("\n")[:12]))

# ---------------------------------------------------------------------------------------------------------------------
# 2. Rewrites of every kind. Each one is the newest of some seq, so that the view as of that seq shows it.
UUID = "01932f1a-7b00-7a02-8a02-000000000002"
SUMMARY_1 = (
    r'{"id":1,"start_seq":2,"end_seq":5,"summary":"They read a \u00e9\/ <LS>","compressed_message_count":4,'
    r'"original_tokens":100,"summary_tokens":10,"tokens_saved":90,"ratio":1.0e-1,"strategy":"summarize",'
    r'"model":"gpt-x","timestamp":"2026-11-16T03:15:12.000000Z"}'
)
SUMMARY_2 = (
    r'{"id":2,"start_seq":2,"end_seq":13,"summary":"second","compressed_message_count":8,"original_tokens":80,'
    r'"summary_tokens":8,"tokens_saved":72,"ratio":0.1,"strategy":"compact","timestamp":"2026-11-16T03:15:20.000000Z"}'
)
CALL = r'"content":null,"tool_calls":[{"id":"%s","type":"function","function":{"name":"f","arguments":"{}"}}]'
log = Log()
log.start(UUID)
log.message("system", 5, r'"content":"S"')  # 1
log.message("user", 5, r'"content":"U2"')  # 2
log.message("assistant", 5, CALL % "r3")  # 3
log.message(
    "tool", 50, r'"content":"long","tool_name":"f","tool_call_id":"r3","output_ref":"out\/\u0034"'
)  # 4
log.message("assistant", 5, r'"content":"A5"')  # 5
log.message("user", 5, r'"content":"U6","extra":{"k":1.0}')  # 6
log.message(
    "assistant",
    9,
    r'"content":"A7","tool_calls":[{"id":"r7a","type":"function","function":{"name":"f",'  # 7
    r'"arguments":""}},{"id":"r7b","type":"function","function":{"name":"f","arguments":""}}]',
)
log.message("tool", 50, r'"content":"long 8","tool_call_id":"r7a"')  # 8
log.message("tool", 50, r'"content":"long 9","tool_call_id":"r7b"')  # 9
log.message("assistant", 5, r'"content":"A10"')  # 10
log.event(
    "rewrite",
    r'"ordinal":1,"strategy":"summarize","base":0,"parent":0,"covers":6,"reason":"token limit",'
    r'"segments":[{"keep":[1,1]},{"literal":{"role":"user","content":"Summary: a \u00e9\/ <LS>"},'
    r'"kind":"summary","tokens":10,"summary":' + SUMMARY_1 + r'},{"literal":{"role":"assistant",'
    r'"content":[{"type":"text","text":"retained 1.0e5"}]},"kind":"retain","tokens":4},{"keep":[6,6]}],'
    r'"request_id":"rq-sum","request_digest":"0123456789abcdef0123456789abcdef"',
)
log.message("user", 5, r'"content":"U11"')  # 11
as_of(
    UUID,
    9,
    r"""
{"role":"system","content":"S"}
{"role":"user","content":"U2"}
{"role":"assistant","content":null,"tool_calls":[{"id":"r3","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"long","tool_call_id":"r3"}
{"role":"assistant","content":"A5"}
{"role":"user","content":"U6"}
{"role":"assistant","content":"A7","tool_calls":[{"id":"r7a","type":"function","function":{"name":"f","arguments":""}},{"id":"r7b","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"long 8","tool_call_id":"r7a"}
{"role":"tool","content":"long 9","tool_call_id":"r7b"}
""",
)
as_of(
    UUID,
    10,
    r"""
{"role":"system","content":"S"}
{"role":"user","content":"Summary: a \u00e9\/ <LS>"}
{"role":"assistant","content":[{"type":"text","text":"retained 1.0e5"}]}
{"role":"user","content":"U6"}
{"role":"assistant","content":"A7","tool_calls":[{"id":"r7a","type":"function","function":{"name":"f","arguments":""}},{"id":"r7b","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"long 8","tool_call_id":"r7a"}
{"role":"tool","content":"long 9","tool_call_id":"r7b"}
{"role":"assistant","content":"A10"}
""",
)
# A trim after a compaction: the parent of its base, so undo goes behind both.
log.event(
    "rewrite",
    r'"ordinal":2,"strategy":"trim","base":1,"parent":0,"covers":10,"segments":[{"keep":[1,1]},'
    r'{"rewrite":1,"index":1},{"rewrite":1,"index":2},{"keep":[6,10],"trim_outputs":true,"except":[9]}]',
)
log.message("assistant", 5, CALL % "r12")  # 12
log.message("tool", 50, r'"content":"long 13","tool_call_id":"r12","output_ref":"out-13"')  # 13
TRIMMED = r"""
{"role":"system","content":"S"}
{"role":"user","content":"Summary: a \u00e9\/ <LS>"}
{"role":"assistant","content":[{"type":"text","text":"retained 1.0e5"}]}
{"role":"user","content":"U6"}
{"role":"assistant","content":"A7","tool_calls":[{"id":"r7a","type":"function","function":{"name":"f","arguments":""}},{"id":"r7b","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"[tool output trimmed; seq=8]","tool_call_id":"r7a"}
{"role":"tool","content":"long 9","tool_call_id":"r7b"}
{"role":"assistant","content":"A10"}
{"role":"user","content":"U11"}
"""
as_of(UUID, 11, TRIMMED)
as_of(
    UUID,
    12,
    TRIMMED
    + r"""{"role":"assistant","content":null,"tool_calls":[{"id":"r12","type":"function","function":{"name":"f","arguments":"{}"}}]}
""",
)
# Every kind of segment, cutting groups: the call of 3 loses its result to a literal, 8 and 9 lose their call.
log.event(
    "rewrite",
    r'"ordinal":3,"strategy":"compact","base":2,"parent":2,"covers":13,"reason":"caf\u00e9","segments":['
    r'{"literal":{"role":"system","content":"Notes first."},"kind":"note","tokens":3},'
    r'{"literal":{"role":"user","content":"Second"},"kind":"summary","tokens":8,"summary":'
    + SUMMARY_2
    + r"},"
    r'{"keep":[3,3]},{"literal":{"role":"user","content":"[gap]"},"kind":"gap","tokens":2},'
    r'{"keep":[4,4],"trim_outputs":true},{"seq":6,"content":"U6 shorter \/","tokens":3},{"rewrite":1,"index":2},'
    r'{"seq":8,"content":[{"type":"text","text":"8"}],"tokens":2},{"keep":[9,9]},'
    r'{"literal":{"role":"developer","content":null},"kind":"note","tokens":1},'
    r'{"keep":[12,12]},{"seq":13,"content":null,"tokens":1}]',
)
log.message("user", 5, r'"content":"U14"')  # 14
as_of(
    UUID,
    13,
    r"""
{"role":"system","content":"Notes first."}
{"role":"user","content":"Second"}
{"role":"assistant","content":null,"tool_calls":[{"id":"r3","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":"r3"}
{"role":"user","content":"[gap]"}
{"role":"user","content":"[Tool: f] [tool output trimmed; ref=out\/\u0034]"}
{"role":"user","content":"U6 shorter \/"}
{"role":"assistant","content":[{"type":"text","text":"retained 1.0e5"}]}
{"role":"user","content":[{"type":"text","text":"[Tool: r7a]"},{"type":"text","text":"8"}]}
{"role":"user","content":"[Tool: r7b] long 9"}
{"role":"developer","content":""}
{"role":"assistant","content":null,"tool_calls":[{"id":"r12","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"","tool_call_id":"r12"}
""",
)
# Undo: back to 2, which is the parent of 3; literals stay references to where they stand.
log.event(
    "rewrite",
    r'"ordinal":4,"strategy":"undo","base":3,"parent":0,"covers":10,"segments":[{"keep":[1,1]},'
    r'{"rewrite":1,"index":1},{"rewrite":1,"index":2},{"keep":[6,10],"trim_outputs":true,"except":[9]}],'
    r'"request_id":"rq-undo","request_digest":"0123456789abcdef0123456789abcde0"',
)
log.message("assistant", 5, r'"content":"A15"')  # 15
as_of(
    UUID,
    14,
    TRIMMED
    + r"""{"role":"assistant","content":null,"tool_calls":[{"id":"r12","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"long 13","tool_call_id":"r12"}
{"role":"user","content":"U14"}
""",
)
# Undo again: the plain log.
log.event("rewrite", r'"ordinal":5,"strategy":"undo","base":4,"covers":0,"segments":[]')
PLAIN = r"""
{"role":"system","content":"S"}
{"role":"user","content":"U2"}
{"role":"assistant","content":null,"tool_calls":[{"id":"r3","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"long","tool_call_id":"r3"}
{"role":"assistant","content":"A5"}
{"role":"user","content":"U6"}
{"role":"assistant","content":"A7","tool_calls":[{"id":"r7a","type":"function","function":{"name":"f","arguments":""}},{"id":"r7b","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"tool","content":"long 8","tool_call_id":"r7a"}
{"role":"tool","content":"long 9","tool_call_id":"r7b"}
{"role":"assistant","content":"A10"}
{"role":"user","content":"U11"}
{"role":"assistant","content":null,"tool_calls":[{"id":"r12","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"long 13","tool_call_id":"r12"}
{"role":"user","content":"U14"}
{"role":"assistant","content":"A15"}
"""
as_of(UUID, 15, PLAIN)
log.message("user", 5, r'"content":"U16"')  # 16
# Trim of the plain log: nothing to undo, so no parent. The first of two rewrites after 16 never shows.
log.event(
    "rewrite",
    r'"ordinal":6,"strategy":"trim","base":5,"covers":16,"segments":[{"keep":[1,16],"trim_outputs":true,"except":[]}]',
)
log.event(
    "rewrite",
    r'"ordinal":7,"strategy":"window","base":6,"parent":6,"covers":16,"segments":[{"keep":[16,16]}]',
)
log.message("assistant", 5, r'"content":"A17"')  # 17
as_of(
    UUID,
    16,
    r"""
{"role":"user","content":"U16"}
""",
)
as_of(
    UUID,
    17,
    r"""
{"role":"user","content":"U16"}
{"role":"assistant","content":"A17"}
""",
)
log.message("user", 5, r'"content":"U18"')  # 18
# Rewind to 12: the newest rewrite after at most 12 is 2; then 11 and 12 are kept. 13 to 18 are gone, its call is open.
log.event(
    "rewrite",
    r'"ordinal":8,"strategy":"rewind","base":7,"covers":18,"segments":[{"keep":[1,1]},{"rewrite":1,"index":1},'
    r'{"rewrite":1,"index":2},{"keep":[6,10],"trim_outputs":true,"except":[9]},{"keep":[11,12]}]',
)
log.message("tool", 5, r'"content":"again","tool_call_id":"r12","extra":{"t":-1.5E-3}')  # 19
REWOUND = (
    TRIMMED
    + r"""{"role":"assistant","content":null,"tool_calls":[{"id":"r12","type":"function","function":{"name":"f","arguments":"{}"}}]}
"""
)
as_of(UUID, 18, REWOUND)
log.message("tool", 5, r'"content":"and again","tool_call_id":"r12"')  # 20
CURRENT_2 = (
    REWOUND
    + r"""{"role":"tool","content":"again","tool_call_id":"r12"}
{"role":"user","content":"[Tool: r12] and again"}
{"role":"user","content":"U21"}
"""
)
# A strategy that nobody knows is still a rewrite like any other.
log.event(
    "rewrite",
    r'"ordinal":9,"strategy":"dedupe","base":8,"parent":8,"covers":20,"segments":[{"keep":[1,1]},{"rewrite":1,"index":1},'
    r'{"rewrite":1,"index":2},{"keep":[6,10],"trim_outputs":true,"except":[9]},{"keep":[11,12]},{"keep":[19,20]}]',
)
log.message("user", 5, r'"content":"U21"')  # 21
EXTRA_2 = r"""
{"line":4,"seq":6,"extra":{"k":1.0}}
{"line":11,"seq":19,"extra":{"t":-1.5E-3}}
"""
task(
    "format-v1/running",
    UUID,
    log,
    CURRENT_2,
    EXTRA_2,
    SUMMARY_1 + "\n" + SUMMARY_2 + "\n",
    task_id="102",
    **{"outputs__out-13": b"long 13\n"},
)

# ---------------------------------------------------------------------------------------------------------------------
# 3. Nothing but a start.
UUID = "01932f1a-7b00-7a03-8a03-000000000003"
log = Log()
log.start(UUID)
task("format-v1/running", UUID, log, "", task_id="103")

# ---------------------------------------------------------------------------------------------------------------------
# 4. Inherited context, erased messages, leases of all reasons; ends paused. Pruned: the replaced output keeps its name.
UUID = "01932f1a-7b00-7a04-8a04-000000000004"
log = Log()
log.start(UUID)
log.event(
    "rewrite",
    r'"ordinal":1,"strategy":"inherit","base":0,"covers":0,"segments":[{"literal":{"role":"user","content":'
    r'"From before: \u00e9"},"kind":"inherited","tokens":6},{"literal":{"role":"assistant","content":"Yes."},'
    r'"kind":"inherited","tokens":2}]',
)
log.message("user", 2, r'"content":"[erased]"')  # 1
log.message(
    "assistant",
    9,
    r'"content":"[erased]","tool_calls":[{"id":"k","type":"function","function":{"name":"f",'  # 2
    r'"arguments":"{}"}}]',
)
log.lease(2, "restart")
log.lease(3, "takeover", "i-2")
log.event("status", r'"status":"paused"')
log.lease(4, "resume", "i-3")
log.event("status", r'"status":"running"')
log.message("tool", 2, r'"content":"[erased]","tool_name":"f","tool_call_id":"k"')  # 3
log.message("assistant", 3, r'"content":"A4"')  # 4
log.event(
    "erased",
    r'"from_seq":1,"to_seq":3,"reason":"secret \u00e9","request_id":"rq-erase","request_digest":"000102030405060708090a0b0c0d0e0f"',
)
log.event(
    "rewrite",
    r'"ordinal":2,"strategy":"prune","base":1,"parent":1,"covers":4,"segments":[{"rewrite":1,"index":0},'
    r'{"rewrite":1,"index":1},{"keep":[1,2]},{"seq":3,"content":"pruned","tokens":1},{"keep":[4,4]}]',
)
log.event(
    "status", r'"status":"paused","request_id":"rq-pause","request_digest":"f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"'
)
task(
    "format-v1/paused",
    UUID,
    log,
    r"""
{"role":"user","content":"From before: \u00e9"}
{"role":"assistant","content":"Yes."}
{"role":"user","content":"[erased]"}
{"role":"assistant","content":"[erased]","tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"pruned","tool_call_id":"k"}
{"role":"assistant","content":"A4"}
""",
    r"""
{"line":5,"seq":3,"tool_name":"f"}
""",
    task_id="104",
)
as_of(
    UUID,
    0,
    r"""
{"role":"user","content":"From before: \u00e9"}
{"role":"assistant","content":"Yes."}
""",
)

# ---------------------------------------------------------------------------------------------------------------------
# 5. Completed, with a final summary. The view has lines of its own (inserted ones) before a line with extra fields.
UUID = "01932f1a-7b00-7a05-8a05-000000000005"
log = Log()
log.start(UUID)
log.message("user", 3, r'"content":"Do it"')  # 1
log.message("assistant", 9, CALL % "x1")  # 2
log.message("user", 3, r'"content":"Hurry","extra":{"mood":"😀"}')  # 3
log.message("assistant", 3, r'"content":"Done 😀"')  # 4
log.event(
    "status",
    r'"status":"completed","final_summary":"All d\u006fne:\n- caf\u00e9 \ud83d\ude00 \/ <LS>end",'
    r'"request_id":"rq-done","request_digest":"0a0b0c0d0e0f0a0b0c0d0e0f0a0b0c0d"',
)
task(
    "format-v1/completed",
    UUID,
    log,
    r"""
{"role":"user","content":"Do it"}
{"role":"assistant","content":null,"tool_calls":[{"id":"x1","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","content":"[no result: the call was interrupted]","tool_call_id":"x1"}
{"role":"user","content":"Hurry"}
{"role":"assistant","content":"Done 😀"}
""",
    r"""
{"line":4,"seq":3,"extra":{"mood":"😀"}}
""",
    task_id="105",
    final_summary_txt=raw("All done:\n- café 😀 / <LS>end\n"),
)

# ---------------------------------------------------------------------------------------------------------------------
# 6. Forked from task 5 at seq 2, then failed; its last group stays open.
FORK = "01932f1a-7b00-7a06-8a06-000000000006"
log = Log()
log.start(FORK)
log.message("user", 3, r'"content":"Do it"')  # 1
log.message("assistant", 9, CALL % "x1")  # 2
log.event("forked", f'"from":"{UUID}","at_seq":2')
log.lease(2, "start", "i-2")
log.event("status", r'"status":"failed","error_message":"LLM said: \u00e9 \/ <LS> 500"')
task(
    "format-v1/completed",
    FORK,
    log,
    r"""
{"role":"user","content":"Do it"}
{"role":"assistant","content":null,"tool_calls":[{"id":"x1","type":"function","function":{"name":"f","arguments":"{}"}}]}
""",
    task_id="106",
)

# ---------------------------------------------------------------------------------------------------------------------
# What a reader of version 1 does not know: an event (read-only, not damaged), and a newer format.
UUID = "01932f1a-7b00-7a07-8a07-000000000007"
log = Log()
log.start(UUID)
log.message("user", 1, r'"content":"before"')
log.event("merged_from_future", r'"with":"somewhere","segments":[{"unknown":true}],"covers":77')
log.message("user", 1, r'"content":"after"')
task(
    "format-v1-unknown-event/running",
    UUID,
    log,
    r"""
{"role":"user","content":"before"}
{"role":"user","content":"after"}
""",
    task_id="107",
)

UUID = "01932f1a-7b00-7a08-8a08-000000000008"
log = Log()
log.start(UUID, version=2)
log.message("user", 1, r'"content":"hello"')
task(
    "format-v2-metadata/running",
    UUID,
    log,
    r"""
{"role":"user","content":"hello"}
""",
    task_id="108",
    version=2,
)


def write(data):
    for path, content in FILES.items():
        path = os.path.join(data, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


if __name__ == "__main__":
    write(
        sys.argv[1]
        if len(sys.argv) > 1
        else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
    )
