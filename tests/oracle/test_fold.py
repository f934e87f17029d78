#!/usr/bin/env python3
"""Checks fold.py, check.py and the golden files against each other: python3 tests/oracle/test_fold.py"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

import check
import golden
from fold import fold

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")

TASKS = sorted(glob.glob(os.path.join(DATA, "format-v1", "*", "*")))
UNKNOWN = glob.glob(os.path.join(DATA, "format-v1-unknown-event", "*", "*"))
NEWER = glob.glob(os.path.join(DATA, "format-v2-metadata", "*", "*"))
WRONG = (ValueError, KeyError, IndexError)


def folded(log, as_of=None):
    return fold(*check.read(log), as_of)


def task(number):
    return next(path for path in TASKS if path.endswith(str(number)))


def log_of(path):
    return check.load(path, "messages.jsonl")


def sealed(*bodies):
    """A log of these lines, given without `crc` and without the closing brace."""
    return b"".join(body + b',"crc":"%08x"}\n' % zlib.crc32(body) for body in bodies)


def log(*rows, started=True):
    """A log of rows: "role|caller fields" or "event kind|fields"; numbers are right, durable_to is 0."""
    bodies, seq = [], 0
    for row in (['event started|"uuid":"u","format_version":1'] if started else []) + list(rows):
        kind, _, rest = row.partition("|")
        if kind.startswith("event "):
            head = f'{{"event":"{kind[6:]}","after":{seq},"timestamp":"2026-11-16T03:15:31.123456Z"'
        else:
            seq += 1
            head = f'{{"seq":{seq},"role":"{kind}","timestamp":"2026-11-16T03:15:31.123456Z","tokens":1'
        bodies.append((head + ',"durable_to":0' + ("," + rest if rest else "")).encode())
    return sealed(*bodies)


class Golden(unittest.TestCase):
    def test_files_are_what_the_generator_writes(self):
        found = {
            os.path.relpath(os.path.join(folder, name), DATA)
            for top in glob.glob(os.path.join(DATA, "format-*"))
            for folder, _, names in os.walk(top)
            for name in names
        }
        self.assertEqual(found, set(golden.FILES))
        for path, content in golden.FILES.items():
            self.assertEqual(check.load(DATA, path), content, path)

    def test_views(self):
        self.assertEqual(len(TASKS), 6)
        for path in TASKS + UNKNOWN:
            self.assertEqual(list(check.check(path)), [])

    def test_views_as_of(self):
        files = glob.glob(os.path.join(DATA, "format-v1-as-of", "*.jsonl"))
        self.assertTrue(files)
        for path in files:
            uuid, seq, _ = os.path.basename(path).split(".")
            found = folded(log_of(task(uuid)), int(seq))["current.jsonl"]
            self.assertEqual(found.decode(), check.load(DATA, path).decode(), path)

    def test_final_summary(self):
        status = [
            fields
            for _, fields in check.lines(log_of(task(5)), check.SHAPES["messages.jsonl"])
            if "status" in fields
        ]
        self.assertEqual(
            json.loads(status[-1]["final_summary"]) + "\n", check.load(task(5), "final_summary.txt").decode()
        )

    def test_tokens(self):  # by hand
        self.assertEqual(folded(log_of(task(5)))["tokens"], b"28\n")  # 3+9+10+3+3
        self.assertEqual(folded(log_of(task(2)))["tokens"], b"125\n")  # 5+10+4+5+9+12+50+5+5+5+5+5+5
        # 3+8+ 5+10+2+ 12+3+4+2+50+1+ 5+1: the call of 3 is interrupted, 4 is trimmed
        self.assertEqual(folded(log_of(task(2)), 13)["tokens"], b"106\n")

    def test_every_name_of_the_format_occurs(self):
        text = b"".join(log_of(path) for path in TASKS).decode()
        events = set(re.findall(r'"event":"(\w+)"', text))
        self.assertEqual(
            events, set("started lease config rewrite status usage statistics pin forked erased".split())
        )
        for group in (
            "system developer user assistant tool",
            "start restart takeover resume",
            "running paused completed failed",
            "summary retain gap inherited note",
            "summarize compact prune window trim undo rewind inherit",
        ):
            for word in group.split():
                self.assertIn(f'":"{word}"', text)
        text += "".join(
            content.decode()
            for path, content in golden.FILES.items()
            if path.startswith("format-v1/") and path.endswith((".json", "tools.jsonl", "planning.jsonl"))
        )
        for name in """seq role timestamp tokens durable_to content tool_name tool_calls tool_call_id name pinned output_ref
                request_id extra crc event after request_digest uuid format_version generation holder instance_id process_id
                hostname reason config status error_message final_summary input_tokens output_tokens cache_creation_tokens
                cache_read_tokens llm_calls compressions from at_seq from_seq to_seq ordinal strategy base parent covers
                segments keep trim_outputs except literal kind summary rewrite index id start_seq end_seq
                compressed_message_count original_tokens summary_tokens tokens_saved ratio model arguments result error
                duration_ms message_seq created_at plan_type plan_content task_key task_source owner repo task_type task_id
                repository user""".split():
            self.assertIn(f'"{name}":', text)


class Damage(unittest.TestCase):
    def refused(self, data, message=None):
        with self.assertRaises(WRONG, msg=message):
            folded(data)

    def test_any_flipped_byte(self):
        for number, step in (3, 1), (5, 1), (6, 1), (4, 5), (1, 31), (2, 31):
            good = log_of(task(number))
            for at in range(0, len(good), step):
                bad = bytearray(good)
                bad[at] ^= 1 << at % 8
                self.refused(bytes(bad), f"task {number}, byte {at}")

    def test_any_cut_within_a_line(self):
        good = log_of(task(5))
        for at in range(len(good)):
            if at == 0 or good[at - 1 : at] != b"\n":
                self.refused(good[:at], f"cut at {at}")

    def test_missing_doubled_and_swapped_lines(self):
        rows = log_of(task(5)).splitlines(True)  # started, lease, 4 messages, status
        self.refused(b"".join(rows[1:]))
        for at in range(2, 6):
            if at < 5:
                self.refused(b"".join(rows[:at] + rows[at + 1 :]), f"without {at}")
                self.refused(b"".join(rows[:at] + [rows[at + 1], rows[at]] + rows[at + 2 :]), f"swapped {at}")
            self.refused(b"".join(rows[:at] + [rows[at]] + rows[at:]), f"doubled {at}")

    def test_durable_to(self):
        start = b'{"event":"started","after":0,"timestamp":"2026-11-16T03:15:31.123456Z","durable_to":0,"uuid":"u","format_version":1'
        row = b'{"seq":%d,"role":"user","timestamp":"2026-11-16T03:15:31.123456Z","tokens":1,"durable_to":%d'
        end = len(sealed(start))
        folded(sealed(start, row % (1, end)))
        folded(sealed(start, row % (1, end), row % (2, end)))
        self.refused(sealed(start, row % (1, end + 1)))
        self.refused(sealed(start, row % (1, end), row % (2, end - 1)))

    def test_envelope(self):
        good = log('user|"content":"hi"').splitlines(True)
        body = good[1][:-19]
        for old, new in (
            (b'"seq":1,"role":"user"', b'"role":"user","seq":1'),
            (b'"seq":1', b'"seq":01'),
            (b'"seq":1', b'"seq": 1'),
            (b'"user"', b'"robot"'),
            (b".123456Z", b".123Z"),
            (b".123456Z", b".123456+00:00"),
            (b'"tokens":1,', b""),
            (b'"durable_to":0', b'"content":0'),
            (b'"tokens":1', b'"tokens":-1'),
            (b'"hi"', b'"hi"}'),
        ):
            self.assertIn(old, body)
            self.refused(good[0] + sealed(body.replace(old, new)), new)
        self.refused(good[0] + sealed(body + b',"extra":{},"name":"x"'), "order of caller's fields")
        self.refused(b"")
        self.refused(log('user|"content":"hi"', started=False))
        self.refused(log_of(NEWER[0]))

    def test_rewrites(self):
        def rewritten(fields):
            return folded(log("user", "user", "event rewrite|" + fields))

        rewritten(
            '"ordinal":1,"base":0,"covers":2,"segments":[{"keep":[1,1]},{"seq":2,"content":"x","tokens":1}]'
        )
        for bad in (
            '"ordinal":2,"base":1,"covers":2,"segments":[]',
            '"ordinal":1,"base":1,"covers":2,"segments":[]',
            '"ordinal":1,"base":0,"covers":3,"segments":[]',
            '"ordinal":1,"base":0,"parent":1,"covers":2,"segments":[]',
            '"ordinal":1,"base":0,"covers":1,"segments":[{"keep":[1,2]}]',
            '"ordinal":1,"base":0,"covers":2,"segments":[{"keep":[2,1]}]',
            '"ordinal":1,"base":0,"covers":2,"segments":[{"keep":[1,2]},{"seq":2,"content":"x","tokens":1}]',
            '"ordinal":1,"base":0,"covers":2,"segments":[{"rewrite":1,"index":0}]',
            '"ordinal":1,"base":0,"covers":2,"segments":[{"other":1}]',
        ):
            with self.assertRaises(WRONG, msg=bad):
                rewritten(bad)

    def test_counted_tokens(self):
        def used(counted, *rows):
            return folded(log(*rows, f'event usage|"input_tokens":9,"counted_tokens":{counted}', "user"))

        rewrite = 'event rewrite|"ordinal":1,"base":0,"covers":2,"segments":[{"keep":[2,2]}]'
        for counted, *rows in (
            (0,),
            (2, "user", "user"),
            (1, "user", "assistant"),  # the answer is no input
            (1, "user", "assistant", rewrite),
            (2, "user", "assistant", "event pin|", "user", rewrite),
        ):
            used(counted, *rows)
            used(f'{counted},"tools_tokens":5', *rows)
            with self.assertRaises(WRONG, msg=rows):
                used(f'{counted},"tools_tokens":0', *rows)
            with self.assertRaises(WRONG, msg=rows):
                used(counted + 1, *rows)


class Rendering(unittest.TestCase):
    def current(self, *rows):
        return folded(log(*rows))["current.jsonl"].decode().splitlines()

    def test_huge_numbers_and_deep_values(self):
        extra = '"extra":{"n":%s,"d":%s1%s}' % ("9" * 10000, "[" * 90, "]" * 90)
        found = folded(log('user|"content":"u",' + extra))["current.extra.jsonl"].decode()
        self.assertEqual(found, '{"line":1,"seq":1,%s}\n' % extra)

    def test_what_is_no_call_opens_nothing(self):
        self.assertEqual(
            self.current('assistant|"tool_calls":[{"type":"x"},{"id":5}]', 'user|"content":"u"'),
            ['{"role":"assistant","content":""}', '{"role":"user","content":"u"}'],
        )

    def test_calls_get_ids_that_are_their_own(self):
        call = '{"id":%s,"function":{"name":"a b"}}'
        ids = '5,"","call_1_3","x","x","%s"' % ("y" * 41)
        lines = self.current(
            'assistant|"tool_calls":[%s]' % ",".join(call % id for id in ids.split(",")),
            'tool|"content":"one","tool_call_id":"x"',
            'tool|"content":"two","tool_call_id":"x"',
        )
        shown = [call["id"] for call in json.loads(lines[0])["tool_calls"]]
        self.assertEqual(shown, ["call_1_0", "call_1_1", "call_1_3", "x", "call_1_4", "call_1_5"])
        self.assertEqual([json.loads(line)["tool_call_id"] for line in lines[1:]], ["x", "call_1_4"])
        self.assertIn('"type":"function","function":{"name":"a_b","arguments":""}', lines[0])

    def test_parts_that_a_role_may_not_have_become_text(self):
        image = '{"type":"image_url","image_url":{"url":"u","detail":"x","y":1}}'
        parts = '[%s,{"type":"refusal","refusal":"r","z":1},{"type":"input_text","text":"t"},{"type":"file","file":{}}]'
        row = '|"content":' + parts % image
        text = '{"type":"text","text":"%s"}'
        rest = ["[file omitted]"]
        for role, expected in (
            ("user", ['{"type":"image_url","image_url":{"url":"u"}}', text % "[refusal omitted]"]),
            ("assistant", [text % "[image_url omitted]", '{"type":"refusal","refusal":"r"}']),
            ("system", [text % "[image_url omitted]", text % "[refusal omitted]"]),
        ):
            expected += [text % "t"] + [text % note for note in rest]
            views = folded(log(role + row))
            line = f'{{"role":"{role}","content":[{",".join(expected)}]}}\n'
            self.assertEqual(views["current.jsonl"].decode(), line)
            beside = '{"line":1,"seq":1,"content":%s}\n' % (parts % image)
            self.assertEqual(views["current.extra.jsonl"].decode(), beside)

    def test_only_an_assistant_opens_a_group(self):
        self.assertEqual(
            self.current(
                'user|"content":"u","tool_calls":[{"id":"a","function":{}}]',
                'tool|"content":"r","tool_call_id":"a"',
            ),
            ['{"role":"user","content":"u"}', '{"role":"user","content":"[Tool: a] r"}'],
        )

    def test_events_do_not_close_a_group(self):
        self.assertEqual(
            self.current(
                'assistant|"tool_calls":[{"id":"a","function":{}}]',
                'event usage|"x":1',
                'tool|"tool_call_id":"a"',
            )[1:],
            ['{"role":"tool","content":"","tool_call_id":"a"}'],
        )


class CommandLine(unittest.TestCase):
    def run_fold(self, *args, text=""):
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "check.py"), *args], input=text.encode(), capture_output=True
        )
        return done.returncode, done.stdout

    def test_prints(self):
        for flags, name in (
            ([], "current.jsonl"),
            (["--extra"], "current.extra.jsonl"),
            (["--summaries"], "summaries.jsonl"),
        ):
            self.assertEqual(self.run_fold(*flags, task(2)), (0, check.load(task(2), name)))
        self.assertEqual(self.run_fold("--as-of", "16", task(2)), (0, b'{"role":"user","content":"U16"}\n'))

    def test_check(self):
        self.assertEqual(
            self.run_fold("--check", TASKS[0], "-", text="\n".join(TASKS[1:]) + "\n"),
            (0, b"6 checked, 0 wrong\n"),
        )
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(task(2), os.path.join(folder, "task"))
            for name in "current.jsonl", "current.extra.jsonl", "summaries.jsonl", "messages.jsonl":
                content = check.load(copy, name)
                with open(os.path.join(copy, name), "wb") as file:
                    file.write(content[:-2] + b" \n")
                code, out = self.run_fold("--check", task(1), copy)
                self.assertEqual(code, 1)
                self.assertIn(f"{copy}/{name}: ".encode(), out)
                self.assertTrue(out.endswith(b"\n2 checked, 1 wrong\n"), out)
                with open(os.path.join(copy, name), "wb") as file:
                    file.write(content)
            os.remove(os.path.join(copy, "current.extra.jsonl"))
            self.assertEqual(self.run_fold("--check", copy)[0], 1)


if __name__ == "__main__":
    unittest.main()
