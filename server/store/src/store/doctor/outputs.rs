//! The examination of a task's outputs: each is what its name says, has its index, and is there if a log names it.

use std::collections::BTreeSet;
use std::io;

use crate::infra::fs::{Kind, StorePath};
use crate::log::Line;
use crate::model::json::field;
use crate::model::{StoreError, TaskId};
use crate::outputs::{Content, Entry, Meta, OutputId};

use super::{Cure, Doctor};
use crate::store::layout;

/// Refs that are kept while a log is read; more are not looked for.
const MOST: usize = 1 << 18;

/// Outputs that the logs of a task name.
#[derive(Debug, Default)]
pub(super) struct Named(BTreeSet<OutputId>);

impl Named {
    pub(super) fn note(&mut self, line: &Line<'_>) {
        let named =
            field(line.text, "output_ref").map(|text| text.trim_matches('"')).and_then(OutputId::parse);
        if self.0.len() < MOST {
            self.0.extend(named);
        }
    }
}

impl Doctor<'_> {
    pub(super) fn outputs(&mut self, id: TaskId, dir: &StorePath, named: &Named) -> Result<(), StoreError> {
        let dir = dir.join(layout::OUTPUTS);
        for entry in self.entries(&dir)? {
            let path = dir.join(entry.name.clone());
            match Entry::of(&entry.name).filter(|_| entry.kind == Kind::File) {
                None => {
                    self.note(Some(id), &path, "is nothing that belongs here; it is left alone");
                    continue;
                }
                // A server that runs has some all the time.
                Some(Entry::Put) => {
                    if self.seen.in_use_by.is_none() {
                        self.problem(Some(id), &path, "was left by a crash");
                    }
                }
                Some(Entry::Plain(output) | Entry::Packed(output)) => self.output(id, &dir, &path, output)?,
                Some(Entry::Meta(output)) => {
                    let there = Content::open(self.env.fs.as_ref(), &dir, output);
                    if matches!(there, Ok(None)) && self.seen.in_use_by.is_none() {
                        let problem =
                            "belongs to an output whose bytes are lost; put it again, or remove this";
                        self.tell(Some(id), path.to_string(), problem, Cure::Attention);
                    }
                }
            }
            self.permissions(Some(id), &path)?;
        }
        for output in &named.0 {
            let found = Content::open(self.env.fs.as_ref(), &dir, *output);
            if matches!(found, Ok(None)) {
                let path = dir.join(output.plain()).to_string();
                self.tell(Some(id), path, "is named by a log, and is not there", Cure::Attention);
            }
        }
        Ok(())
    }

    fn output(
        &mut self,
        id: TaskId,
        dir: &StorePath,
        path: &StorePath,
        output: OutputId,
    ) -> Result<(), StoreError> {
        let fs = self.env.fs.as_ref();
        let failed = |error| StoreError::io(format!("reading {path}"), error);
        let counted = match Content::open(fs, dir, output) {
            // It went since.
            Ok(None) => return Ok(()),
            Ok(Some(mut content)) => content.count(),
            Err(error) => Err(error),
        };
        let counted = match counted {
            Ok(counted) if output.is_of(&counted.hash) => counted,
            Ok(_) => {
                let problem = "its bytes are not what was put; if it was not given up, put it again";
                self.tell(Some(id), path.to_string(), problem, Cure::Attention);
                return Ok(());
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                self.tell(Some(id), path.to_string(), &format!("is damaged: {error}"), Cure::Attention);
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let index = dir.join(output.meta());
        let right = match Meta::read(fs, &index).map_err(failed)? {
            Some(meta) => meta.agrees(&counted).map_err(failed)?,
            None => false,
        };
        if !right {
            self.problem(Some(id), &index, "is missing, or is not what the output gives");
        }
        Ok(())
    }
}
