//! The tables of the retention benchmark, and its targets.

use std::fmt::Write as _;
use std::path::Path;

use super::score::{Count, Result, Way};
use super::session::Kind;

/// Between these the document holds what was measured.
const BEGIN: &str = "<!-- measured: make bench-retention -->\n";
const END: &str = "<!-- end -->\n";

/// What a generator is for.
const TUNING: &str = "used for tuning";
const JUDGE: &str = "the judge";

/// The generators, and what each is for; the judge is the one that was never used for tuning.
pub(crate) const GENERATORS: &[(&str, &str)] = &[
    ("first", TUNING),
    ("second", TUNING),
    ("third", TUNING),
    ("fourth", TUNING),
    ("fifth", TUNING),
    ("sixth", TUNING),
    ("seventh", TUNING),
    ("eighth", JUDGE),
];

/// A table of all, and one for each generator.
pub(crate) fn tables(results: &[Result]) -> String {
    let mut text = all_together(results);
    for &(generator, use_of) in GENERATORS {
        let of = results.iter().filter(|result| result.generator == generator && result.sessions > 0);
        let of: Vec<&Result> = of.collect();
        let Some(any) = of.first() else { continue };
        let (sessions, before) = (any.sessions, any.before / u64::from(any.sessions));
        let (planted, superseded) = (any.all.planted, any.all.superseded);
        let _ = writeln!(
            text,
            "The {generator} generator ({use_of}): {sessions} sessions of {before} tokens on average, {planted} facts that hold and \
             {superseded} that were superseded.\n"
        );
        text.push_str("| to | strategy | facts kept |");
        Kind::ALL.iter().for_each(|kind| text.push_str(&format!(" {} |", kind.as_str())));
        text.push_str(" superseded ones kept | view |\n|---|---|---|");
        Kind::ALL.iter().for_each(|_| text.push_str("---|"));
        text.push_str("---|---|\n");
        for result in of {
            let _ = write!(
                text,
                "| {} % | {} | **{:.1} %** |",
                result.percent,
                result.way.as_str(),
                result.all.share()
            );
            for kind in Kind::ALL {
                let count = result.kinds.get(&kind).copied().unwrap_or_default();
                let _ = write!(text, " {:.1} |", count.share());
            }
            let view = 100.0 * result.after as f64 / result.before as f64;
            let _ = writeln!(text, " {} of {} | {view:.1} % |", result.all.stale, result.all.superseded);
        }
        text.push('\n');
    }
    text
}

/// What is kept of the facts of all generators that are used for tuning, and of those of the judge.
fn all_together(results: &[Result]) -> String {
    let mut text = String::from(
        "| to | facts kept of | extractive | in three rounds | prune | window | drop the oldest |\n|---|---|---|---|---|---|---|\n",
    );
    for (percent, use_of) in [(30, TUNING), (30, JUDGE), (10, TUNING), (10, JUDGE)] {
        let shares = Way::ALL.map(|way| together(results, use_of, percent, way));
        let shares = shares.map(|share| share.map_or_else(String::new, |share| format!("{share:.1} %")));
        let of = if use_of == JUDGE { "the judge" } else { "all used for tuning" };
        let _ = writeln!(text, "| {percent} % | {of} | {} |", shares.join(" | "));
    }
    text.push('\n');
    text
}

/// Puts the tables into the document, between its marks.
pub(crate) fn into_document(path: &Path, tables: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, behind) = rest.split_once(END).unwrap();
    std::fs::write(path, format!("{before}{BEGIN}\n{tables}{END}{behind}")).unwrap();
}

/// What one way kept of the facts of one generator, if that was measured.
fn measured(results: &[Result], generator: &str, percent: u64, way: Way) -> Option<Count> {
    let is = |result: &&Result| {
        (result.generator, result.percent, result.way) == (generator, percent, way) && result.sessions > 0
    };
    results.iter().find(is).map(|result| result.all)
}

/// The share that one way kept of the facts of all generators that are for this, if all were measured.
fn together(results: &[Result], use_of: &str, percent: u64, way: Way) -> Option<f64> {
    let names = GENERATORS.iter().filter(|(_, of)| *of == use_of).map(|(name, _)| *name);
    let counts = names.map(|name| measured(results, name, percent, way)).collect::<Option<Vec<Count>>>()?;
    Some(counts.into_iter().sum::<Count>().share())
}

/// What was missed.
pub(crate) fn targets(results: &[Result]) -> Vec<String> {
    let share = |generator: &str, percent: u64, way: Way| {
        measured(results, generator, percent, way).map(Count::share)
    };
    let mut missed = Vec::new();
    for &(generator, _) in GENERATORS {
        let at_ten = share(generator, 10, Way::Extractive).zip(share(generator, 10, Way::DropOldest));
        if let Some((kept, dropped)) = at_ten.filter(|(kept, dropped)| *kept < 2.0 * dropped) {
            missed.push(format!("{generator}: extractive keeps {kept:.1} % at 10 %, not twice {dropped:.1}"));
        }
    }
    let tuned = together(results, TUNING, 30, Way::Extractive);
    if let Some(kept) = tuned.filter(|kept| *kept < 90.0) {
        missed.push(format!("extractive keeps {kept:.1} % at 30 % of what is used for tuning, not 90"));
    }
    let both = tuned.zip(together(results, JUDGE, 30, Way::Extractive));
    if let Some((tuned, judged)) = both.filter(|(tuned, judged)| (tuned - judged).abs() > 5.0) {
        missed.push(format!(
            "at 30 % the judge says {judged:.1}, and those used for tuning together {tuned:.1}"
        ));
    }
    let over = results
        .iter()
        .filter(|result| result.way == Way::Extractive && result.largest > result.percent as f64 + 0.5);
    missed.extend(over.map(|result| {
        format!(
            "{}: a view has {:.1} % where {} were asked for",
            result.generator, result.largest, result.percent
        )
    }));
    missed
}
