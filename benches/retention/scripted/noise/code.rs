//! Source files, searches in them, listings, histories and diffs.

use super::super::rng::Rng;
use super::super::script::World;
use super::super::talk::section;
use super::{Out, path, person, word};

fn upper(word: &str) -> String {
    word.split(['_', '-'])
        .map(|part| {
            part.chars().take(1).flat_map(char::to_uppercase).chain(part.chars().skip(1)).collect::<String>()
        })
        .collect()
}

fn ident(rng: &mut Rng, world: &World) -> String {
    word(rng, world).replace('-', "_")
}

fn comment(rng: &mut Rng, world: &World) -> String {
    let file = if world.japanese {
        include_str!("../talk/prose_ja.txt")
    } else {
        include_str!("../talk/prose_en.txt")
    };
    let lines = section(file, "comment");
    let line: &str = lines[rng.range(0, lines.len() - 1)];
    super::fill(line, rng, world)
}

/// A statement in the language of the world's files.
fn statement(rng: &mut Rng, world: &World) -> String {
    let (a, b, c) = (ident(rng, world), ident(rng, world), ident(rng, world));
    let n = rng.range(2, 900);
    match (world.ext.as_str(), rng.range(0, 9)) {
        ("rs", 0) => format!("let {a} = self.{b}.get(&{c})?;"),
        ("rs", 1) => format!("let {a} = {b}.iter().filter(|x| x.{c} > {n}).count();"),
        ("rs", 2) => format!("if {a}.{b}() < {n} {{ return Err({}Error::{}) }}", upper(&a), upper(&c)),
        ("rs", 3) => format!("debug!({a} = ?{b}, \"{c} done\");"),
        ("rs", 4) => format!("{a}.push({}::new({b}.clone(), {n}));", upper(&c)),
        ("rs", 5) => format!("let {a} = match {b} {{ Some(v) => v.{c}(), None => Default::default() }};"),
        ("rs", 6) => format!("self.{a}.insert({b}, {c}.into());"),
        ("rs", 7) => {
            format!("for ({a}, {b}) in self.{c}.iter().enumerate().take({n}) {{ sum += {a} * {b}.len(); }}")
        }
        ("rs", 8) => format!("let {a}: Vec<{}> = {b}.into_iter().map(Into::into).collect();", upper(&c)),
        ("rs", _) => format!("assert_eq!({a}.{b}().{c}, {n});"),
        ("ts" | "tsx", 0) => format!("const {a} = await this.{b}.find({{ {c}: {n} }});"),
        ("ts" | "tsx", 1) => format!("const {a} = {b}.filter((x) => x.{c} !== undefined).map((x) => x.{c});"),
        ("ts" | "tsx", 2) => format!("if (!{a}?.{b}) throw new {}Error('{c}');", upper(&a)),
        ("ts" | "tsx", 3) => format!("logger.debug({{ {a}, {b} }}, '{c} done');"),
        ("ts" | "tsx", 4) => format!("{a}.push(new {}({b}, {n}));", upper(&c)),
        ("ts" | "tsx", 5) => format!("const [{a}, set{}] = useState<{} | null>(null);", upper(&a), upper(&b)),
        ("ts" | "tsx", 6) => format!("return {{ ...{a}, {b}: {c} ?? {n} }};"),
        ("ts" | "tsx", 7) => format!("for (const {a} of {b}) total += {a}.{c} ?? 0;"),
        ("ts" | "tsx", _) => format!("expect({a}.{b}).toEqual({c}.slice(0, {n}));"),
        ("go", 0) => format!("{a}, err := s.{}.Get(ctx, {c})", upper(&b)),
        ("go", 1) => format!("if err != nil {{ return fmt.Errorf(\"{a} {b}: %w\", err) }}"),
        ("go", 2) => format!("if len({a}) > {n} {{ {b} = append({b}, {c}...) }}"),
        ("go", 3) => format!("s.log.Debug(\"{a}\", \"{b}\", {c}, \"n\", {n})"),
        ("go", 4) => format!("for _, {a} := range s.{b} {{ total += {a}.{} }}", upper(&c)),
        ("go", 5) => format!("defer s.{a}.{}({b})", upper(&c)),
        ("go", 6) => format!("{a} := make(map[string]*{}, {n})", upper(&b)),
        ("go", _) => format!("s.{a}[{b}] = &{}{{{}: {n}}}", upper(&c), upper(&a)),
        ("sql", 0) => format!("select {a}, {b}, count(*) as {c}_count from {a}_{b} group by 1, 2"),
        ("sql", 1) => format!("left join {a}_{b} on {a}_{b}.{c}_id = base.{c}_id"),
        ("sql", 2) => format!("where base.{a} >= {n} and base.{b} is not null"),
        ("sql", 3) => format!("coalesce({a}.{b}, {n}) as {c},"),
        ("sql", 4) => format!("sum(case when {a} = '{b}' then {c} else 0 end) as {a}_{c},"),
        ("sql", _) => format!("row_number() over (partition by {a} order by {b} desc) as {c}_rank,"),
        (_, 0) => format!("{a} = self.{b}.get({c}, {n})"),
        (_, 1) => format!("{a} = [x.{b} for x in {c} if x.{b} is not None]"),
        (_, 2) => format!("if not {a}.{b}: raise {}Error(\"{c}\")", upper(&a)),
        (_, 3) => format!("log.debug(\"{a} %s %s\", {b}, {c})"),
        (_, 4) => format!("{a}[\"{b}\"] = {a}[\"{c}\"].fillna({n})"),
        (_, 5) => format!("{a} = {b}.merge({c}, on=\"{a}_id\", how=\"left\")"),
        (_, 6) => format!("{a}.append({}({b}, {c}={n}))", upper(&c)),
        (_, 7) => format!("for {a}, {b} in enumerate({c}[:{n}]): total += {b}.{a}"),
        (_, _) => format!("assert {a}.{b} == {c}[{n}]"),
    }
}

pub(super) fn code(out: &mut Out, rng: &mut Rng, world: &World) {
    let sign = match world.ext.as_str() {
        "rs" | "ts" | "tsx" | "go" => "//",
        "sql" => "--",
        _ => "#",
    };
    for _ in 0..rng.range(2, 6) {
        let (a, b) = (ident(rng, world), ident(rng, world));
        out.add(match world.ext.as_str() {
            "rs" => format!("use crate::{a}::{};", upper(&b)),
            "ts" | "tsx" => format!("import {{ {} }} from '../{a}/{b}';", upper(&b)),
            "go" => format!("import \"internal/{a}/{b}\""),
            "sql" => format!("-- depends on {a}_{b}"),
            _ => format!("from {a}.{b} import {}", upper(&b)),
        });
    }
    while !out.full() {
        let (a, b, c) = (ident(rng, world), ident(rng, world), ident(rng, world));
        out.add("");
        if rng.chance(60) {
            out.add(format!("{sign} {}", comment(rng, world)));
        }
        out.add(match world.ext.as_str() {
            "rs" => {
                format!("pub fn {a}_{b}(&mut self, {c}: &{}) -> Result<{}, Error> {{", upper(&c), upper(&b))
            }
            "ts" | "tsx" => format!(
                "export async function {a}{}({c}: {}): Promise<{}> {{",
                upper(&b),
                upper(&c),
                upper(&a)
            ),
            "go" => format!(
                "func (s *{}) {}{}(ctx context.Context, {c} string) error {{",
                upper(&a),
                upper(&b),
                upper(&c)
            ),
            "sql" => format!("create or replace view {a}_{b}_{c} as"),
            _ => format!("def {a}_{b}(self, {c}, *, dry_run=False):"),
        });
        for _ in 0..rng.range(3, 12) {
            if rng.chance(12) {
                out.add(format!("    {sign} {}", comment(rng, world)));
            }
            let deep = if rng.chance(25) { "        " } else { "    " };
            out.add(format!("{deep}{}", statement(rng, world)));
        }
        if matches!(world.ext.as_str(), "rs" | "ts" | "tsx" | "go") {
            out.add("}");
        }
    }
}

pub(super) fn grep(out: &mut Out, rng: &mut Rng, world: &World) {
    while !out.full() {
        let file = path(rng, world);
        for _ in 0..rng.range(1, 4) {
            out.add(format!("{file}:{}:    {}", rng.range(3, 880), statement(rng, world)));
        }
    }
}

pub(super) fn ls(out: &mut Out, rng: &mut Rng, world: &World) {
    out.add(format!("total {}", rng.range(40, 9000)));
    while !out.full() {
        let (a, b) = (word(rng, world), word(rng, world));
        let (size, day, clock) = (rng.range(200, 980_000), super::day(rng, world), super::clock(rng));
        let ext = if rng.chance(60) {
            world.ext.as_str()
        } else {
            rng.pick(&["json", "md", "lock", "bak", "txt", "log"])
        };
        out.add(format!("-rw-r--r-- 1 app app {size:>8} {day} {clock} {a}_{b}_{}.{ext}", rng.range(1, 99)));
    }
}

pub(super) fn gitlog(out: &mut Out, rng: &mut Rng, world: &World) {
    while !out.full() {
        let hash = rng.hex(9);
        let subject = comment(rng, world);
        out.add(format!("{hash} {subject} ({})", person(rng, world)));
        for _ in 0..rng.range(1, 5) {
            let (plus, minus) = (rng.range(0, 24), rng.range(0, 14));
            let bar = format!("{}{}", "+".repeat(plus), "-".repeat(minus));
            out.add(format!(" {} | {} {bar}", path(rng, world), plus + minus));
        }
    }
}

pub(super) fn diff(out: &mut Out, rng: &mut Rng, world: &World) {
    while !out.full() {
        let file = path(rng, world);
        out.add(format!("diff --git a/{file} b/{file}"));
        out.add(format!("index {}..{} 100644", rng.hex(7), rng.hex(7)));
        out.add(format!("--- a/{file}"));
        out.add(format!("+++ b/{file}"));
        for _ in 0..rng.range(1, 3) {
            let at = rng.range(4, 700);
            out.add(format!("@@ -{at},{} +{at},{} @@", rng.range(5, 12), rng.range(5, 14)));
            for _ in 0..rng.range(4, 11) {
                let sign = rng.pick(&[" ", " ", "-", "+", "+"]);
                out.add(format!("{sign}    {}", statement(rng, world)));
            }
        }
    }
}
