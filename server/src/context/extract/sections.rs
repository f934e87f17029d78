//! The sections of a summary, and the form of its text: how it is written, and how it is read back when a later summary
//! folds it in.
//!
//! Every line of content begins with `- `, so nothing in it can pass for a heading.

use serde::Serialize;

/// A section of a summary, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Goal,
    Constraints,
    Decisions,
    Changes,
    Files,
    Commands,
    Errors,
    Facts,
    Pending,
    Refs,
}

impl Section {
    pub(super) const COUNT: usize = 10;

    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::Goal,
        Self::Constraints,
        Self::Decisions,
        Self::Changes,
        Self::Files,
        Self::Commands,
        Self::Errors,
        Self::Facts,
        Self::Pending,
        Self::Refs,
    ];

    /// Those that hold sentences.
    pub(super) const SAID: [Self; 7] = [
        Self::Goal,
        Self::Constraints,
        Self::Decisions,
        Self::Changes,
        Self::Errors,
        Self::Facts,
        Self::Pending,
    ];

    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Goal => "## Goal",
            Self::Constraints => "## Instructions and constraints",
            Self::Decisions => "## Decisions",
            Self::Changes => "## Changes made",
            Self::Files => "## Files",
            Self::Commands => "## Commands run",
            Self::Errors => "## Errors seen",
            Self::Facts => "## Facts",
            Self::Pending => "## Open items",
            Self::Refs => "## Stored outputs",
        }
    }

    /// In the order in which they are given room, as long as there is some.
    pub(super) const BY_NEED: [Self; Self::COUNT] = [
        Self::Goal,
        Self::Constraints,
        Self::Refs,
        Self::Decisions,
        Self::Pending,
        Self::Errors,
        Self::Files,
        Self::Facts,
        Self::Changes,
        Self::Commands,
    ];

    /// How much of a short summary is for it, in percent.
    pub(super) fn share(self) -> u64 {
        match self {
            Self::Goal => 20,
            Self::Constraints => 30,
            Self::Decisions => 16,
            Self::Changes => 5,
            Self::Files => 12,
            Self::Commands => 4,
            Self::Errors => 9,
            Self::Facts => 8,
            Self::Pending => 5,
            Self::Refs => 15,
        }
    }
}

/// The content of a summary by what it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Sections {
    /// What it is all for.
    pub goal: Vec<String>,
    /// What the user wants, and does not want, in the user's words.
    pub constraints: Vec<String>,
    /// What was decided.
    pub decisions: Vec<String>,
    /// What was made, changed and removed.
    pub changes: Vec<String>,
    /// Paths of files, with what was done to them.
    pub files: Vec<String>,
    /// Commands that were run.
    pub commands: Vec<String>,
    /// Lines that tell of errors.
    pub errors: Vec<String>,
    /// Ids, numbers, addresses, findings.
    pub facts: Vec<String>,
    /// What is still to be done.
    pub pending: Vec<String>,
    /// Outputs of tools that can still be read in full.
    pub refs: Vec<String>,
}

impl Sections {
    pub(super) fn of(&self, section: Section) -> &Vec<String> {
        match section {
            Section::Goal => &self.goal,
            Section::Constraints => &self.constraints,
            Section::Decisions => &self.decisions,
            Section::Changes => &self.changes,
            Section::Files => &self.files,
            Section::Commands => &self.commands,
            Section::Errors => &self.errors,
            Section::Facts => &self.facts,
            Section::Pending => &self.pending,
            Section::Refs => &self.refs,
        }
    }

    pub(super) fn of_mut(&mut self, section: Section) -> &mut Vec<String> {
        match section {
            Section::Goal => &mut self.goal,
            Section::Constraints => &mut self.constraints,
            Section::Decisions => &mut self.decisions,
            Section::Changes => &mut self.changes,
            Section::Files => &mut self.files,
            Section::Commands => &mut self.commands,
            Section::Errors => &mut self.errors,
            Section::Facts => &mut self.facts,
            Section::Pending => &mut self.pending,
            Section::Refs => &mut self.refs,
        }
    }

    /// The text of a summary.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for section in Section::ALL {
            let lines = self.of(section);
            if lines.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(section.heading());
            text.push('\n');
            for line in lines {
                text.push_str("- ");
                text.push_str(line);
                text.push('\n');
            }
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Tells the lines of a text that [`Sections::to_text`] has made; false, and nothing told, if it is another.
pub(super) fn read<'a>(text: &'a str, mut tell: impl FnMut(Section, &'a str)) -> bool {
    let heading = |line: &str| Section::ALL.into_iter().find(|section| section.heading() == line);
    let first = text.lines().next().unwrap_or_default();
    let ours = |line: &str| line.is_empty() || line.starts_with("- ") || heading(line).is_some();
    if heading(first).is_none() || !text.lines().all(ours) {
        return false;
    }
    let mut section = Section::Goal;
    for line in text.lines() {
        match line.strip_prefix("- ") {
            Some(content) => tell(section, content),
            None => section = heading(line).unwrap_or(section),
        }
    }
    true
}
