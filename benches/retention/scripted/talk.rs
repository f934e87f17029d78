//! What is said between the facts and matters to nobody: remarks with a call, progress reports, small talk.

use super::noise;
use super::rng::Rng;
use super::script::World;

/// The lines of a section of a text file, which starts with its name in brackets.
pub(crate) fn section(file: &'static str, name: &str) -> Vec<&'static str> {
    let lines = file.lines().skip_while(|line| line.trim() != format!("[{name}]")).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.trim().is_empty()).collect()
}

/// A line that was not said for a while.
fn draw<T: Clone>(lines: &mut Vec<T>, rng: &mut Rng) -> T {
    let line = lines.remove(rng.range(0, lines.len() / 2));
    lines.push(line.clone());
    line
}

/// The pools of a session, each shuffled, so that nothing is said twice while there is something new to say.
pub(crate) struct Talk {
    remarks: Vec<String>,
    reads: Vec<&'static str>,
    thoughts: Vec<&'static str>,
    opens: Vec<&'static str>,
    details: Vec<&'static str>,
    closes: Vec<&'static str>,
    chats: Vec<&'static str>,
    endings: Vec<&'static str>,
    turn: usize,
}

impl Talk {
    pub(crate) fn new(world: &World, rng: &mut Rng) -> Self {
        let file =
            if world.japanese { include_str!("talk/talk_ja.txt") } else { include_str!("talk/talk_en.txt") };
        let mut shuffled = |name: &str| {
            let mut lines = section(file, name);
            rng.shuffle(&mut lines);
            lines
        };
        let (opens, details, closes) = (shuffled("open"), shuffled("detail"), shuffled("close"));
        let (reads, thoughts) = (shuffled("read"), shuffled("think"));
        let (chats, endings) = (shuffled("chat"), shuffled("end"));
        let mut remarks: Vec<String> = shuffled("say").into_iter().map(str::to_owned).collect();
        remarks.extend(world.remarks.iter().flat_map(|line| [line.clone(), line.clone()]));
        rng.shuffle(&mut remarks);
        Self { remarks, reads, thoughts, opens, details, closes, chats, endings, turn: 0 }
    }

    /// What the model says with a call of a tool on `of`, if that is a file.
    /// It is a short one at the start of a turn, where there is nothing to think about yet.
    pub(crate) fn remark(&mut self, rng: &mut Rng, world: &World, of: Option<&str>, start: bool) -> String {
        if !start && rng.chance(75) {
            let mut text = {
                let line = draw(&mut self.thoughts, rng);
                noise::fill(line, rng, world)
            };
            for _ in 0..rng.range(0, if world.japanese { 1 } else { 2 }) {
                text.push_str(if world.japanese { "" } else { " " });
                let line = draw(&mut self.details, rng);
                text.push_str(&noise::fill(line, rng, world));
            }
            return text;
        }
        if let Some(of) = of.filter(|_| rng.chance(40)) {
            return draw(&mut self.reads, rng).replace("{of}", of);
        }
        let line = draw(&mut self.remarks, rng);
        noise::fill(&line, rng, world)
    }

    pub(crate) fn report(&mut self, rng: &mut Rng, world: &World) -> String {
        self.turn += 1;
        let turn = self.turn;
        let open = noise::fill(self.opens[turn % self.opens.len()], rng, world);
        let count = rng.range(4, 8);
        let details: Vec<String> = (0..count)
            .map(|_| {
                let line = draw(&mut self.details, rng);
                noise::fill(line, rng, world)
            })
            .collect();
        let close = noise::fill(self.closes[turn % self.closes.len()], rng, world);
        let gap = if world.japanese { "" } else { " " };
        match rng.range(0, 3) {
            0 => format!("{open}\n\n{}\n\n{close}", details.join(gap)),
            1 => format!("{open}{gap}{}{gap}{close}", details.join(gap)),
            _ => format!("{open}\n\n- {}\n\n{close}", details.join("\n- ")),
        }
    }

    /// A question that matters to nobody and its answer, while there are some left.
    pub(crate) fn chat(&mut self, rng: &mut Rng, world: &World) -> Option<(String, String)> {
        let (question, answer) = self.chats.pop()?.split_once(" ||| ")?;
        Some((noise::fill(question, rng, world), noise::fill(answer, rng, world)))
    }

    pub(crate) fn ending(&mut self, rng: &mut Rng, world: &World) -> (String, String) {
        let (question, answer) = draw(&mut self.endings, rng).split_once(" ||| ").unwrap();
        (noise::fill(question, rng, world), noise::fill(answer, rng, world))
    }
}
