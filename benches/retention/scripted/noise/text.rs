//! Answers of services, tables, and what people wrote: documents, mails, minutes, results of searches.

use super::super::rng::Rng;
use super::super::script::World;
use super::super::talk::section;
use super::{Out, clock, day, fill, noun, path, person, word};

fn prose(name: &str, rng: &mut Rng, world: &World) -> String {
    let file = if world.japanese {
        include_str!("../talk/prose_ja.txt")
    } else {
        include_str!("../talk/prose_en.txt")
    };
    let lines = section(file, name);
    let line: &str = lines[rng.range(0, lines.len() - 1)];
    fill(line, rng, world)
}

fn paragraph(rng: &mut Rng, world: &World) -> String {
    let sentences: Vec<String> = (0..rng.range(2, 6)).map(|_| prose("sentence", rng, world)).collect();
    sentences.join(if world.japanese { "" } else { " " })
}

pub(super) fn json(out: &mut Out, rng: &mut Rng, world: &World) {
    out.add("{\"items\": [");
    while !out.full() {
        let (a, b, c) = (word(rng, world), word(rng, world), word(rng, world));
        out.add(format!(
            r#"  {{"id": "{}", "{a}": "{}", "{b}_count": {}, "state": "{}", "owner": "{}", "updated": "{}T{}Z", "{c}": {{"score": 0.{}, "tags": ["{a}", "{c}"]}}}},"#,
            rng.hex(12),
            noun(rng, world),
            rng.range(0, 9000),
            rng.pick(&["open", "done", "draft", "archived", "waiting"]),
            person(rng, world),
            day(rng, world),
            clock(rng),
            rng.range(100, 999),
        ));
    }
    out.add(format!("], \"next\": \"{}\", \"total\": {}}}", rng.hex(20), rng.range(100, 9000)));
}

pub(super) fn csv(out: &mut Out, rng: &mut Rng, world: &World) {
    let names: Vec<String> = (0..5).map(|_| word(rng, world)).collect();
    out.add(format!("id,date,item,{},owner", names.join(",")));
    let mut id = rng.range(1000, 80_000);
    while !out.full() {
        id += rng.range(1, 9);
        let numbers: Vec<String> =
            (0..5).map(|_| format!("{}.{:02}", rng.range(0, 9000), rng.range(0, 99))).collect();
        let (day, item) = (day(rng, world), noun(rng, world));
        out.add(format!("{id},{day},{item},{},{}", numbers.join(","), person(rng, world)));
    }
}

pub(super) fn table(out: &mut Out, rng: &mut Rng, world: &World) {
    let (a, b, c) = (word(rng, world), word(rng, world), word(rng, world));
    out.add(format!(" id | {a} | {b} | {c} | updated_at | note"));
    out.add("----+------+------+------+------------+------");
    let mut rows = 0;
    while !out.full() {
        rows += 1;
        out.add(format!(
            " {} | {} | {} | {}.{:02} | {} {} | {}",
            rng.range(1000, 99_999),
            word(rng, world),
            noun(rng, world),
            rng.range(0, 9000),
            rng.range(0, 99),
            day(rng, world),
            clock(rng),
            if rng.chance(30) { prose("comment", rng, world) } else { String::new() },
        ));
    }
    out.add(format!("({rows} rows)"));
}

pub(super) fn doc(out: &mut Out, rng: &mut Rng, world: &World) {
    out.add(format!("# {}", prose("heading", rng, world)));
    while !out.full() {
        out.add("");
        if rng.chance(45) {
            out.add(format!("## {}", prose("heading", rng, world)));
            out.add("");
        }
        if rng.chance(25) {
            for _ in 0..rng.range(3, 6) {
                out.add(format!("- {}", prose("sentence", rng, world)));
            }
        } else {
            out.add(paragraph(rng, world));
        }
    }
}

pub(super) fn mail(out: &mut Out, rng: &mut Rng, world: &World) {
    while !out.full() {
        let (from, to) = (person(rng, world), person(rng, world));
        out.add(format!("From: {from}"));
        out.add(format!("To: {to}"));
        out.add(format!("Date: {} {}", day(rng, world), clock(rng)));
        out.add(format!("Subject: {}", prose("heading", rng, world)));
        out.add("");
        for _ in 0..rng.range(1, 3) {
            out.add(paragraph(rng, world));
            out.add("");
        }
        out.add(from);
        out.add("---");
    }
}

pub(super) fn notes(out: &mut Out, rng: &mut Rng, world: &World) {
    out.add(format!("{} {}", day(rng, world), prose("heading", rng, world)));
    let mut minute = rng.range(540, 660);
    while !out.full() {
        minute += rng.range(0, 3);
        if rng.chance(12) {
            out.add(format!("== {} ==", prose("heading", rng, world)));
        }
        let at = format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
        out.add(format!("{at} {}: {}", person(rng, world), prose("sentence", rng, world)));
    }
}

pub(super) fn search(out: &mut Out, rng: &mut Rng, world: &World) {
    let mut number = 0;
    while !out.full() {
        number += 1;
        let site =
            format!("{}-{}.example.{}", word(rng, world), word(rng, world), rng.pick(&["org", "com", "net"]));
        out.add(format!("{number}. {}", prose("heading", rng, world)));
        out.add(format!("   https://{site}/{}", path(rng, world)));
        out.add(format!("   {}", paragraph(rng, world)));
    }
}
