//! `contextstore mask`: applies the masking rules of a configuration to a text.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Failure;
use super::config::ConfigFlags;
use crate::config::Config;
use crate::mask::{Masker, SecretLocation};

/// Prints a text with its secrets masked, as the store would write it.
///
/// With --check the command prints where secrets are, never the secrets, and exits with 1 if there are any.
#[derive(Debug, Args)]
pub(super) struct Mask {
    /// The file to read; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only print what would be masked: FILE:LINE: RULE
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    flags: ConfigFlags,
}

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Largest text that --check accepts.
const MOST_CHECKED: usize = 256 << 20;

impl Mask {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.flags.into())?;
        let masker = config.masking.masker().map_err(io::Error::other)?;
        let is_stdin = self.file.as_os_str() == "-";
        let name = if is_stdin { "-".to_owned() } else { self.file.display().to_string() };
        let input: Box<dyn Read> =
            if is_stdin { Box::new(io::stdin().lock()) } else { Box::new(open(&self.file)?) };
        if self.check { check(&masker, &name, input, out) } else { write(&masker, input, out) }
    }
}

#[expect(clippy::disallowed_methods, reason = "a file that somebody names; nothing of the data directory")]
fn open(path: &Path) -> Result<std::fs::File, Failure> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    Ok(std::fs::File::open(path).map_err(named)?)
}

fn write(masker: &Masker, mut input: Box<dyn Read>, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let (mut stream, mut chunk, mut masked) = (masker.stream(), vec![0; CHUNK], Vec::new());
    loop {
        let read = input.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        stream.push(&chunk[..read], &mut masked);
        out.write_all(&masked)?;
        masked.clear();
    }
    stream.finish(&mut masked);
    out.write_all(&masked)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the whole text, because a secret over several lines is reported at its first line.
fn check(
    masker: &Masker,
    name: &str,
    input: Box<dyn Read>,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut bytes = Vec::new();
    input.take(MOST_CHECKED as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MOST_CHECKED {
        let problem = format!("{name} has more than {} MiB; check it in pieces", MOST_CHECKED >> 20);
        return Err(io::Error::other(problem).into());
    }
    let text = String::from_utf8_lossy(&bytes);
    let (mut line, mut at) = (1, 0);
    let findings = masker.locate(&text);
    for SecretLocation { start, rule } in &findings {
        line += text.as_bytes()[at..*start].iter().filter(|byte| **byte == b'\n').count();
        at = *start;
        writeln!(out, "{name}:{line}: {rule}")?;
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
