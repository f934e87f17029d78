//! A Python process that measures on request.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use serde_json::Value;

use crate::report::Sample;

/// The process. It ends when nobody asks it any more.
#[derive(Clone)]
pub(crate) struct Worker {
    process: Rc<RefCell<Process>>,
    cells: Rc<Vec<String>>,
}

struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(kind: &str, place: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut path = vec![root.join("clients/python/src")];
        path.extend(std::env::var_os("PYTHONPATH").iter().flat_map(std::env::split_paths));
        let mut child = Command::new(python)
            .arg("-B")
            .arg(root.join("benches/python/worker.py"))
            .args([kind, place])
            .env("PYTHONPATH", std::env::join_paths(path).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (requests, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut process = Process { child, requests, answers };
        let ready = process.answer();
        let cells = serde_json::from_value(ready["cells"].clone()).unwrap();
        Self { process: Rc::new(RefCell::new(process)), cells: Rc::new(cells) }
    }

    pub(crate) fn knows(&self, cell: &str) -> bool {
        self.cells.iter().any(|known| known == cell)
    }

    /// What makes one measurement.
    pub(crate) fn cell(&self, request: Value) -> impl FnMut() -> Sample + 'static {
        let worker = self.clone();
        move || {
            let mut process = worker.process.borrow_mut();
            let answer = process.ask(&request);
            let number = |name: &str| answer[name].as_f64().unwrap_or(f64::NAN);
            Sample::new(number("per_second"), number("p50"))
        }
    }
}

impl Process {
    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("the Python side failed; its words are above")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}
