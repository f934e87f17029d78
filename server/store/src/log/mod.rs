//! The logs of a task and the view that is folded out of them: lines, scanning, group commit, fold.
//!
//! Nothing here knows of leases, folders or catalogs, and nothing holds more than one line and one buffer
//! in memory. `docs/FORMAT.md` is the contract.

mod commit;
mod damage;
mod fold;
mod index;
mod line;
mod repair;
mod requests;
mod scan;
mod signal;
mod source;
mod state;
mod view;
mod walk;
mod writer;

pub use commit::{Commit, CommitRole, Journal, LocalJournal};
pub use damage::{DamageNote, DamageNotes};
pub use fold::Fold;
pub(crate) use fold::show;
pub use index::{Index, IndexRow};
pub use line::{BadLine, Head, Line, LogKind, MAX_LINE_BYTES, MessageBody, seal, unseal};
pub(crate) use line::{message_body, without_request_id};
pub use requests::{CompletedRequest, Digest, Requests};
pub(crate) use scan::read_exact_at;
pub use scan::{Backward, Forward, ScannedLine, TailVerdict, check_tail};
pub use signal::Signal;
pub use source::{FoundRewrite, LogSource, MessageRange};
pub use state::{Counters, Damage, FORMAT_VERSION, Lease, LogState, RecordState, RewriteMark};
pub use view::{MISSING_TOKENS, RENDER_VERSION, TRIMMED_TOKENS};
pub use view::{OpenCall, ShownMessage, ViewState};
pub use walk::{ViewMessage, ViewWalk};
pub use writer::{Appended, LogWriter};
