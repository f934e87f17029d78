//! What is said in the English sessions.

use super::By::{Assistant, Tool, User};
use super::super::session::Kind;
use super::{Change, Language, Topic};

pub(crate) static ENGLISH: Language = Language {
    code: "en",
    topics: &[
        Topic {
            name: "billing",
            system: "You are a careful engineer who works on a shop. You have a shell and can read and edit files.",
            goal: "Hi! We have to move the invoicing part of the shop from MySQL to PostgreSQL. Start with the schema, then the \
                   nightly jobs. I will tell you about the rest as we go.",
            components: &[
                "the invoice table", "the dunning job", "the tax module", "the refund flow", "the ledger import", "the credit check",
                "the VAT report", "the price list", "the currency service", "the payment callback", "the archive job", "the statement mail",
            ],
        },
        Topic {
            name: "parser",
            system: "You help to maintain a library. Be brief. You can run commands and edit files.",
            goal: "The configuration parser of this library is slow and its error messages are poor. Rewrite it so that it reads a \
                   file in one pass and says where an error is.",
            components: &[
                "the tokenizer", "the string table", "the error reporter", "the include resolver", "the merge step", "the validator",
                "the schema loader", "the number reader", "the comment handling", "the pretty printer", "the arena", "the public iterator",
            ],
        },
        Topic {
            name: "checkout",
            system: "You are a frontend developer. Use the tools that you are given.",
            goal: "Customers leave the checkout on their phones. Find out why the address form jumps around and make the page load \
                   faster.",
            components: &[
                "the address form", "the cart drawer", "the coupon field", "the payment widget", "the progress bar", "the order summary",
                "the guest login", "the image loader", "the tracking script", "the sticky footer", "the country picker", "the consent banner",
            ],
        },
        Topic {
            name: "incident",
            system: "You are on call. You can look at logs and metrics and change configuration.",
            goal: "The upload service has been dropping requests since last night. Find the cause, get it stable, and write down \
                   what happened.",
            components: &[
                "the upload gateway", "the virus scanner", "the thumbnail worker", "the rate limiter", "the session proxy", "the blob store",
                "the retry queue", "the health check", "the node pool", "the alert rule", "the sidecar", "the quota service",
            ],
        },
        Topic {
            name: "pipeline",
            system: "You work on data pipelines. You have a shell on the build machine.",
            goal: "We want to load the click stream every hour and not once a day. Rework the pipeline, with backfill for the last \
                   quarter.",
            components: &[
                "the ingest step", "the dedupe stage", "the hourly partition", "the backfill runner", "the late-event buffer", "the schema registry",
                "the quality gate", "the export bucket", "the cost report", "the bot filter", "the join with accounts", "the watermark",
            ],
        },
        Topic {
            name: "login",
            system: "You are a security-minded backend developer.",
            goal: "Add sign-in with passkeys next to passwords, and clean up the session handling while you are at it.",
            components: &[
                "the session cookie", "the passkey registration", "the recovery mail", "the token endpoint", "the device list", "the lockout counter",
                "the audit trail", "the password hash", "the admin console", "the invite link", "the consent page", "the key rotation",
            ],
        },
    ],
    constraints: &[
        ("Whatever you do, leave {dir} untouched, the auditors are reading it this week.", "leave {dir} untouched"),
        ("Every request to {component} has to come back in {n} ms or less.", "{component} has to come back in {n} ms or less"),
        ("Nothing newer than {tool} 7 please, that is what customers have.", "Nothing newer than {tool} 7"),
        ("No new dependencies in {component}; legal needs months for each of them.", "No new dependencies in {component}"),
        ("Commit messages here start with the ticket, like {ticket}.", "start with the ticket, like {ticket}"),
        ("I want the old and the new version of {component} side by side until {date}.", "side by side until {date}"),
        ("Log lines of {component} must not contain names of customers.", "Log lines of {component} must not contain names"),
        ("Don't run anything against {host}, that one is production.", "Don't run anything against {host}"),
        ("Cap {component} at {n} threads, the machine is shared.", "Cap {component} at {n} threads"),
        ("Please write the comments in {component} in plain English, no abbreviations.", "in {component} in plain English"),
        ("Ask me before you delete anything in {dir}.", "Ask me before you delete anything in {dir}"),
        ("For {component} we are bound to {tool}, the contract says so.", "For {component} we are bound to {tool}"),
        ("The public interface of {component} stays as it is, three teams build on it.", "The public interface of {component} stays"),
        ("Tests for {component} may not use the network.", "Tests for {component} may not use the network"),
        ("You can use at most {n} MB of memory for {component}.", "at most {n} MB of memory for {component}"),
        ("Only Marta merges changes to {component}.", "Only Marta merges changes to {component}"),
    ],
    decisions: &[
        ("After comparing both I went for {tool} in {component}: the other one cannot stream.", "I went for {tool} in {component}"),
        ("Decision: {component} keeps amounts as whole numbers.", "keeps amounts as whole numbers"),
        ("I'll keep {component} synchronous and put the slow part into a queue.", "keep {component} synchronous"),
        ("As agreed, {component} gets a schema of its own, named {name}.", "a schema of its own, named {name}"),
        ("We settled on {tool} for {component}, one file per day.", "settled on {tool} for {component}"),
        ("I decided against {tool} here, because {component} would need a second cluster.", "decided against {tool} here"),
        ("{component} will retry {n} times and then give up; the caller does not retry.", "will retry {n} times and then give up"),
        ("So the plan for {component} is: write to both, compare for a week, then cut over.", "write to both, compare for a week"),
        ("I chose to split {component} by tenant rather than by date.", "split {component} by tenant"),
        ("Let's go with feature flag {name} for {component}.", "feature flag {name}"),
        ("For {component} we prefer a plain table scan to an index; it is read once a day.", "prefer a plain table scan"),
        ("The approach for {component}: compute on read, never store.", "compute on read, never store"),
    ],
    user_facts: &[
        (Kind::Id, "The ticket for {component} is {ticket}.", "{ticket}"),
        (Kind::Id, "Staging answers at {url}, by the way.", "{url}"),
        (Kind::Path, "The code for {component} is in {path}.", "{path}"),
        (Kind::Id, "Use the test account {id} when you try {component}.", "{id}"),
        (Kind::Error, "Customers see {code} when they come to {component}.", "{code}"),
        (Kind::Path, "Have a look at {path}, I think {component} starts there.", "{path}"),
        (Kind::Id, "Our contract number with the vendor of {component} is {hash}.", "{hash}"),
        (Kind::Id, "Last good build was {hash}.", "Last good build was {hash}"),
        (Kind::Error, "Ops reported {ecode} for {component} twice this morning.", "{ecode}"),
    ],
    facts: &[
        (Kind::Id, "The job for {component} runs as {id}.", "{id}"),
        (Kind::Path, "{component} is wired up in {path}.", "{path}"),
        (Kind::Path, "I found the culprit: {path} opens a second connection.", "{path}"),
        (Kind::Error, "{component} fails with {code} as soon as two workers start.", "{code}"),
        (Kind::Id, "I opened {ticket} for the leftovers of {component}.", "{ticket}"),
        (Kind::Id, "The baseline for {component} is {n} requests per second.", "{n} requests per second"),
        (Kind::Path, "The new tests are in {path}.", "{path}"),
        (Kind::Id, "Deployed to {host} as revision {hash}.", "{hash}"),
        (Kind::Error, "The remaining failure is {ecode}: {component} closes the stream too early.", "{ecode}"),
        (Kind::Path, "Configuration of {component} is read from {path} at start.", "{path}"),
        (Kind::Id, "The dashboard is at {url}.", "{url}"),
        (Kind::Decision, "Still to do: load test for {component}.", "load test for {component}"),
        (Kind::Decision, "Open question: who rotates the keys of {component}?", "who rotates the keys of {component}"),
    ],
    errors: &[
        ("10:14:02.118 ERROR worker: {code}: lease expired while {component} was flushing", "{code}"),
        ("error[{ecode}]: cannot borrow the buffer of {component} twice", "{ecode}"),
        ("FATAL: could not open segment of {component} (code {code})", "{code}"),
        ("E   AssertionError: {code} expected, {component} gave nothing", "{code}"),
        ("npm ERR! code {ecode}", "{ecode}"),
        ("panic: {ecode} in {component}, goroutine 17", "{ecode}"),
        ("HTTP 502 from {host}: upstream reset ({code})", "{code}"),
        ("java.lang.IllegalStateException: {code} {component} is closed", "{code}"),
        ("2 tests failed: test_{setting} ({code})", "{code}"),
    ],
    changes: &[
        Change {
            kind: Kind::Id,
            old: (User, "{component} listens on port {port}.", "listens on port {port}"),
            new: (User, "Change of plan: {component} moves to port {port2}, {port} is taken.", "moves to port {port2}"),
        },
        Change {
            kind: Kind::Constraint,
            old: (User, "Please use {tool} for {component}.", "Please use {tool} for {component}"),
            new: (User, "I changed my mind about {component}: {tool2} it is, not {tool}.", "{tool2} it is, not"),
        },
        Change {
            kind: Kind::Constraint,
            old: (User, "The deadline for {component} is {date}.", "The deadline for {component} is {date}"),
            new: (User, "The deadline for {component} was moved to {date2}.", "moved to {date2}"),
        },
        Change {
            kind: Kind::Decision,
            old: (Assistant, "I'll keep the state of {component} in {tool}.", "keep the state of {component} in {tool}"),
            new: (Assistant, "{tool} turned out too slow, so the state of {component} goes into {tool2} instead.", "goes into {tool2} instead"),
        },
        Change {
            kind: Kind::Decision,
            old: (Assistant, "TODO: write the rollback script for {component}.", "TODO: write the rollback script for {component}"),
            new: (Assistant, "The rollback script for {component} is done and lives in {path}.", "{path}"),
        },
        Change {
            kind: Kind::Id,
            old: (User, "The timeout of {component} is {n} seconds.", "is {n} seconds"),
            new: (User, "The timeout of {component} is {n2} seconds now.", "is {n2} seconds"),
        },
        Change {
            kind: Kind::Path,
            old: (User, "The settings of {component} are in {path}.", "{path}"),
            new: (User, "The settings of {component} have moved, look into {path2} from now on.", "{path2}"),
        },
        Change {
            kind: Kind::Id,
            old: (Tool, "{setting}={n}", "{setting}={n}"),
            new: (Tool, "{setting}={n2}", "{setting}={n2}"),
        },
        Change {
            kind: Kind::Error,
            old: (Tool, "error: relation {name} does not exist ({component})", "relation {name} does not exist"),
            new: (Assistant, "Fixed: the relation {name} is created by {path} now.", "created by {path}"),
        },
        Change {
            kind: Kind::Decision,
            old: (Assistant, "We decided to ship {component} with {tool} as the default.", "ship {component} with {tool}"),
            new: (User, "No, {component} must not ship with {tool} any more. Ship it with {tool2}.", "Ship it with {tool2}"),
        },
    ],
    chat: &[
        "Thanks, go on.", "Sounds good.", "Nice, that was quick.", "How is it going?", "Ok.", "Back from lunch, carry on.",
        "Great work so far!", "Hm, interesting.", "Let me know when you are through.", "Good morning!", "No hurry.", "Cool.",
    ],
    replies: &[
        "Will do.", "On it.", "Thanks, I'll go on with it.", "Understood, I'll continue.", "Sure, noted.",
        "Got it, working on it now.", "Alright, next I look at the callers.",
    ],
    remarks: &[
        "The function walks the list twice, which is fine for this size.", "The names could be better, but that is cosmetic.",
        "This part is covered by tests already.", "Nothing unusual there.", "The loop reads well enough.",
        "It mirrors what the other module does.", "The structure is about what one would expect.", "The comments are a bit old.",
        "That explains the odd naming.", "The helper is used in a few places.", "It is straightforward code.",
        "There is some duplication between the two branches.", "The log shows normal traffic.", "That matches what I saw before.",
    ],
    narration: &[
        "Let me look at that file.", "I'll check the callers first.", "Now let me run the tests.", "Let me search for other uses.",
        "I'll read the neighbouring module.", "Checking the logs.", "Next, the folder.",
    ],
};
