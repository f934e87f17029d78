//! The sections of a summary, and the form of its text: how it is written, and how it is read back when a later summary takes
//! it in. Every line of content begins with `- `, so nothing in it can pass for a heading.

/// A section of a summary, in the order in which they are written. What the user said stands behind what the model decided
/// and found, because a reader takes what comes last for what holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The purpose of the work, in the user's words.
    Goal,
    /// The model's decisions.
    Decisions,
    /// Ids, numbers, addresses, findings.
    Facts,
    /// Rules and other statements of the user, in the user's words.
    Constraints,
    /// The user's last request, in the user's words.
    Request,
    /// What the user has said since the current request, in the user's words.
    Later,
    /// What was made, changed and removed.
    Changes,
    /// Paths of files, with what was done to them.
    Files,
    /// Commands that were run, with their results.
    Commands,
    /// Errors that were seen.
    Errors,
    /// What is still to be done.
    Pending,
    /// Outputs of tools that can still be read in full.
    Refs,
}

impl Section {
    /// How many there are.
    pub(super) const COUNT: usize = 12;

    /// All of them, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Goal,
        Self::Decisions,
        Self::Facts,
        Self::Constraints,
        Self::Request,
        Self::Later,
        Self::Changes,
        Self::Files,
        Self::Commands,
        Self::Errors,
        Self::Pending,
        Self::Refs,
    ];

    /// The sections of the user's own words, in order.
    pub const OF_USER: [Self; 4] = [Self::Goal, Self::Constraints, Self::Request, Self::Later];

    /// Returns the line above its lines.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Goal => "## Goal",
            Self::Request => "## Current request",
            Self::Decisions => "## Decisions",
            Self::Facts => "## Facts",
            Self::Constraints => "## Instructions and constraints",
            Self::Later => "## Instructions since the request",
            Self::Changes => "## Changes made",
            Self::Files => "## Files",
            Self::Commands => "## Commands run",
            Self::Errors => "## Errors seen",
            Self::Pending => "## Open items",
            Self::Refs => "## Stored outputs",
        }
    }

    /// Returns the section of a heading of any level, ours or one that a model was asked for.
    fn of_heading(line: &str) -> Option<Self> {
        match line.trim_start_matches('#').trim().trim_end_matches(':') {
            "Changes" => Some(Self::Changes),
            "Errors" => Some(Self::Errors),
            "Pending" => Some(Self::Pending),
            title => Self::ALL.into_iter().find(|section| &section.heading()[3..] == title),
        }
    }

    /// Returns whether its lines are the user's own words.
    pub(super) fn is_of_user(self) -> bool {
        Self::OF_USER.contains(&self)
    }
}

/// The current request where it is the goal itself.
pub(super) const AS_THE_GOAL: &str = "As the goal.";

/// The lines of a summary by section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sections([Vec<String>; Section::COUNT]);

impl Sections {
    /// Returns the lines of a section.
    pub fn of(&self, section: Section) -> &Vec<String> {
        &self.0[section as usize]
    }

    /// Returns the lines of a section, to be changed.
    pub fn of_mut(&mut self, section: Section) -> &mut Vec<String> {
        &mut self.0[section as usize]
    }

    /// Returns the text of a summary.
    pub fn to_text(&self) -> String {
        let with_lines = Section::ALL.into_iter().filter(|section| !self.of(*section).is_empty());
        let texts = with_lines.map(|section| {
            let lines: String = self.of(section).iter().map(|line| format!("\n- {line}")).collect();
            format!("{}{lines}", section.heading())
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// Calls `take` with each line of a summary and its section; none for a line under no heading that is known. What stands a
/// second time under a heading of the user's words is a model's, and so is what stands behind the list there.
pub(super) fn read<'a>(text: &'a str, mut take: impl FnMut(Option<Section>, &'a str)) {
    let (mut section, mut seen) = (None, [false; Section::COUNT]);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with('#') {
            section = Section::of_heading(line);
            if let Some(found) = section {
                let again = std::mem::replace(&mut seen[found as usize], true);
                section = section.filter(|found| !(again && found.is_of_user()));
                continue;
            }
        }
        let content = line.strip_prefix("- ");
        section = section.filter(|section| content.is_some() || !section.is_of_user());
        take(section, content.unwrap_or(line));
    }
}
