//! The summariser as a whole: what it keeps and drops, and that nothing breaks it.

use super::*;
use crate::context::count_text;

fn piece(seq: u64, role: Role, text: &str) -> Piece<'_> {
    Piece { seq, role, text, calls: &[], tool_name: None, output_ref: None }
}

#[test]
fn it_works() {
    let mut extractor = Extractor::new(500, TokenCounter::Fitted);
    extractor.take(&piece(1, Role::User, "Please port the parser to Rust. Never touch legacy/old.py!"));
    let extract = extractor.finish();
    assert!(extract.text.contains("Never touch legacy/old.py!"), "{}", extract.text);
    assert!(count_text(TokenCounter::Fitted, &extract.text) <= 500);
}
