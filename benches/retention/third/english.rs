//! The English sessions of the third generator: kinds of work, and what is said once and stays true. What is said of two
//! things in the same words is two facts.

use super::{Language, Work, english_changes::CHANGES};

pub(crate) static ENGLISH: Language = Language {
    code: "en",
    works: &[
        Work {
            name: "platform",
            system: "You operate a Kubernetes platform for product teams. Use the tools with care.",
            goal: "We're consolidating three clusters into one this month. Let's go service by service, I'll give you details when \
                   we get to each.",
            services: &["orchard", "tollbooth", "sundial", "ropeway", "glasshouse", "millstone", "lantern", "ferry", "granary"],
        },
        Work {
            name: "mobile",
            system: "You are pairing with a mobile team. Keep answers short.",
            goal: "The sync engine of our app drains batteries. I want to know where the time goes and then fix the worst of it.",
            services: &[
                "the sync engine", "the inbox", "the attachment cache", "the push bridge", "the login flow",
                "the offline store", "the map screen", "the share sheet", "the billing screen",
            ],
        },
        Work {
            name: "study",
            system: "You assist a research group with data analysis. You have a shell with Python and R.",
            goal: "We need to re-run the cohort analysis for the revision. Reviewer 2 has a number of requests, I'll paste them as we \
                   go.",
            services: &[
                "the cohort loader", "the imputation step", "the survival model", "the bootstrap", "the plotting code",
                "the supplement", "the registry import", "the matching step", "the power analysis",
            ],
        },
        Work {
            name: "payments",
            system: "You are a backend engineer at a payments company.",
            goal: "Chargebacks take us days to process. Let's automate the evidence collection end to end.",
            services: &[
                "evidence-api", "dispute-worker", "ledger-sync", "card-vault", "payout-cron", "fx-rates", "kyc-proxy",
                "fraud-scorer", "invoice-mailer",
            ],
        },
        Work {
            name: "games",
            system: "You help a small game studio with its servers and tools.",
            goal: "Matchmaking falls over on weekends. Make it survive the next tournament.",
            services: &[
                "matchmaker", "lobby", "voice relay", "replay store", "leaderboard", "item shop", "anti-cheat", "patcher",
                "telemetry sink",
            ],
        },
    ],
    changes: CHANGES,
    facts: FACTS,
    people: &[
        "Ottilie", "Bram", "Nkechi", "Saoirse", "Dmitri", "Yusuf", "Paloma", "Henrike", "Tendai", "Marguerite", "Anselm",
        "Chiara", "Ravi", "Solveig", "Emeka", "Juno", "Leocadia", "Matthias", "Oluwaseun", "Piotr", "Quentin", "Rosalind",
        "Thandiwe", "Ulrich", "Valentina", "Wendell", "Xiomara", "Zoltan",
    ],
    places: &[
        "Tallinn", "Lisbon", "Nairobi", "Osaka", "Montreal", "Gdansk", "Santiago", "Perth", "Hanoi", "Leipzig", "Porto",
        "Bergen", "Cork", "Malmo", "Austin", "Pune", "Quito", "Riga", "Turin", "Utrecht", "Vilnius", "Zagreb", "Accra",
        "Basel", "Denver",
    ],
    nods: &[
        "k", "Fine by me.", "Yep, sounds right.", "Good, thanks.", "Makes sense to me.", "Keep going please.",
        "I'm in meetings until lunch, carry on.", "Sweet.", "How far are we?", "No objections.", "lgtm",
    ],
    acks: &[
        "Okay.", "Right away.", "Will do, moving on.", "Thanks, I'm on it.", "Alright.", "Understood, continuing.",
        "Good, then I'll carry on with the next part.", "Noted.",
    ],
    musings: &[
        "Here is roughly how I read this part: a request comes in, gets validated, is handed to a worker, and the worker reports \
         back. There is nothing surprising in that, though the naming takes some getting used to.",
        "I went through the module from top to bottom. Most of it is plumbing.",
        "The happy path is simple enough. The interesting bits are in the error handling, which is spread over several helpers.",
        "Looking at the history of this file, people have mostly added to it and seldom removed anything.",
        "Let me take a look at how the callers use it.",
        "I'd like to see the surrounding code before touching anything.",
        "This resembles a pattern I have seen elsewhere: one goroutine owns the state, all others send it messages.",
        "The tests read well and cover the common cases, with a few helpers shared between them.",
        "That output is what one would expect on a quiet day.",
        "Checking what the logs say.",
        "On the whole the structure is sound, and I don't see a reason to rearrange it.",
        "A couple of things stand out, none of them urgent: long functions, a few stale comments, some duplicated setup.",
    ],
};

static FACTS: &[&[&str]] = &[
    // The same words for two things.
    &["U: {svc} is exposed on port [[i|{port}]].", "U: {svc2} is exposed on port [[i|{port2}]]."],
    &["U: Staging of {svc} runs version [[i|{ver}]].", "U: Production of {svc} runs version [[i|{ver2}]]."],
    &[
        "A: The soft limit of {svc} is [[i|{n} requests a minute]].",
        "A: The hard limit of {svc} is [[i|{n2} requests a minute]].",
    ],
    &["U: {person} knows {svc} best, [[i|ask {person} first]].", "U: For {svc2} [[i|ask {person2} instead]]."],
    &[
        "A: Unit tests of {svc} are in [[p|{path}]].",
        "A: Load tests of {svc} are in [[p|{path2}]].",
    ],
    &["U: We report on {svc} [[c|every {day}]].", "U: We report on {svc2} [[c|every {day2}]]."],
    &[
        "A: Ticket [[i|{tick}]] covers the memory growth in {svc}.",
        "A: Ticket [[i|{tick2}]] covers the slow start of {svc}.",
    ],
    &["T: pytest -x => E   {err}: [[e|{err}]] raised by {svc}", "T: pytest -x => E   [[e|{err2}]] raised by {svc}"],
    // What the user wants.
    &["U: Whatever happens, [[c|{svc} keeps serving reads]] during the migration."],
    &["U: legal says [[c|no personal data of {svc} leaves {place}]]"],
    &["U: We can't have more than [[c|{n} open connections from {svc}]], the database falls over."],
    &["U: Anything that touches {dir} [[c|needs a second pair of eyes on {dir}]]."],
    &["U: [[c|The customers of {svc} must not notice]] any of this."],
    &["U: We promised {place} that [[c|{svc} answers within {n} ms]]."],
    &["U: I would rather have {svc} slow than wrong, so [[c|verify every write of {svc}]]."],
    &["U: Budget for {svc} is tight: [[c|{big} dollars until {date}]] and not a cent more."],
    &["U: Please [[c|write {svc} migrations so that they can be undone]]."],
    &["U: nobody but {person} [[c|has the right to restart {svc}]]"],
    // What was decided.
    &["A: After weighing both, {svc} [[d|will poll every {n} seconds]] rather than hold connections."],
    &["A: I'm going to [[d|put a circuit breaker around {svc}]], open after {n} failures."],
    &["U: OK let's [[d|ship {svc} behind {flag}]]."],
    &["A: We compared {lib} and {lib2} for {svc}. [[d|{lib2} wins for {svc}]], mostly because of its tooling."],
    &["U: {person} agrees: [[d|{svc} gets its own database]]."],
    &["A: Design for {svc}: [[d|append-only table {table}]], compacted at night."],
    // Paths, errors, ids.
    &["E: [[p|{path}]]"],
    &["A: The retry logic of {svc} hides in [[p|{path}]]."],
    &["U: Start reading at [[p|{path}]], it's the heart of {svc}."],
    &["A: Wrote the load profile of {svc} to [[p|{path}]]."],
    &["T: kubectl describe pod => Last State: Terminated, Reason: OOMKilled, {svc} [[e|exit {err}]]"],
    &["T: terraform apply => Error: creating {svc} cluster: [[e|{err}]]: limit exceeded"],
    &["A: Under load {svc} answers with [[e|{err}]], roughly once in {n} calls."],
    &["U: A customer of {svc} sent a screenshot that says [[e|{err}]]."],
    &["T: curl -s localhost => {\"status\":\"degraded\",\"service\":\"{svc}\",\"incident\":\"[[i|{id}]]\"}"],
    &["U: The dataset for {svc} is [[i|{bucket}]]."],
    &["A: Rolled out {svc}, build [[i|{sha}]]."],
    &["U: The API of {svc} is documented at [[i|{url}]]."],
    &["A: The job that compares both sides of {svc} is [[i|{id}]]."],
    &["U: {svc} runs on [[i|{size}]] machines."],
];
