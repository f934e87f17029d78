//! What changes in the English sessions of the third generator: each story is said, perhaps taken up, and later no
//! longer so. Stories stand in pairs, of which one is told in each half of the sessions.

pub(crate) static CHANGES: &[&[&str]] = &[
    // Said outright.
    &[
        "U: <<The {svc} admin endpoint answers on [[-i|{port}]].||For {svc}, the admin endpoint is bound to [[-i|{port}]].>>",
        "A: Health probe for {svc} now goes to {port}.",
        "U: Actually, the {svc} admin endpoint sits on [[i|{port2}]]; I was looking at an old diagram.",
    ],
    &[
        "U: Metrics for {svc} are scraped from port [[-i|{port}]].",
        "A: I pointed the scraper at {port} and {svc} shows up.",
        "U: I was wrong about {svc}, its metrics come from port [[i|{port2}]].",
    ],
    &[
        "U: Let's do the e2e suite of {svc} in [[-d|{lib} with the default reporter]].",
        "U: Scratch that, e2e for {svc} [[d|should be {lib2}]]. The license of the other one is a problem.",
    ],
    &[
        "U: We'll bundle {svc} [[-d|with {lib}, zero config]].",
        "U: Forget what I said about bundling {svc}. [[d|{lib2} does it]] and the team knows it already.",
    ],
    &[
        "A: I'd go for [[-d|{n} shards in {svc}]] given the current volume.",
        "A: Correction: {svc} needs [[d|{n2} shards]], I had misread the volume by a factor of four.",
    ],
    &[
        "A: The consumer group of {svc} lags by [[-i|{big} messages]].",
        "A: Update on {svc}: after the restart the consumer group is only [[i|{n} messages]] behind.",
    ],
    &[
        "U: {svc} talks to the warehouse through [[-i|{host}]].",
        "A: {svc} reaches {host} from my shell, 3 ms round trip.",
        "U: {svc} no longer talks to that host, the warehouse was rebuilt and is called [[i|{host2}]] now.",
    ],
    &[
        "U: Artifacts of {svc} end up in [[-i|{bucket}]].",
        "T: aws s3 ls => upload target {bucket} reachable, 14 objects",
        "U: As of today artifacts of {svc} go to [[i|{bucket2}]].",
    ],
    &[
        "U: You can assume Node {ver} for {svc}, i.e. [[-c|target Node {ver}]] when you compile.",
        "U: Infra upgraded the {svc} images. [[c|Compile for Node {ver2}]] instead.",
    ],
    &[
        "U: Stay on [[-c|Python {ver}]] in {svc} please.",
        "U: Good news, {svc} may use [[c|Python {ver2}]], the base image was bumped.",
    ],
    // Both values in one sentence.
    &[
        "U: Set the session lifetime of {svc} to [[-i|{n} minutes, not more]].",
        "A: Session lifetime of {svc} is configured.",
        "U: Security came back: the session lifetime of {svc} goes from {n} [[i|to {n2} minutes]].",
    ],
    &[
        "A: The upload limit of {svc} [[-i|is {n} MB per file]] at the moment.",
        "U: Raise the upload limit of {svc} from {n} MB [[i|to {n2} MB]].",
    ],
    &[
        "U: The cut-over for {svc} [[-c|happens on {date}]].",
        "A: I put the cut-over of {svc} into the runbook.",
        "U: Not {date} but [[c|{date2} for the cut-over]] of {svc}, the vendor is on holiday.",
    ],
    &[
        "U: Freeze for {svc} [[-c|begins {date}]].",
        "U: the {svc} freeze [[c|begins {date2}]] rather than {date}, mgmt wants one more release",
    ],
    &[
        "A: I named the new queue of {svc} [[-i|{flag}, in line]] with the rest.",
        "A: I renamed the queue of {svc} from {flag} [[i|to {flag2}]], because the old name was taken in prod.",
    ],
    &[
        "A: The migration lives on branch [[-i|{branch}.]]",
        "A: I moved the migration from {branch} [[i|to {branch2}]] after the rebase went sideways.",
    ],
    // Nobody says that it is a change.
    &[
        "U: {svc} gets [[-i|{n} GiB of memory]] per pod.",
        "A: With {n} GiB of memory {svc} starts fine.",
        "U: {svc} gets [[i|{n2} GiB of memory]] per pod.",
    ],
    &["U: nightly export of {svc} [[-i|runs at {time}]]", "U: nightly export of {svc} [[i|runs at {time2}]]"],
    &[
        "A: Status of {svc}: error rate [[-i|{n} per 10k]] requests.",
        "A: Status of {svc}: error rate [[i|{n2} per 10k]] requests.",
    ],
    &["A: {svc} p99 is [[-i|{n} ms]] in the canary.", "A: {svc} p99 is [[i|{n2} ms]] in the canary."],
    &[
        "U: {person} [[-i|signs off {svc}]] changes.",
        "U: {person2} [[i|signs off changes to {svc}]], {person} has gone on leave.",
    ],
    &[
        "U: If {svc} pages, [[-i|call {person}]].",
        "U: {svc} pages go to someone else these days: [[i|{person2} carries the phone]].",
    ],
    // Short replies, and what they are about stands in the message before.
    &[
        "A: For the gateway of {svc} I'd take [[-i|port {port} unless you object]].",
        "A: Anything left to settle about the gateway port of {svc}?",
        "+U: [[i|make it {port2}]]",
    ],
    &[
        "A: I'll install the dependencies of {svc} [[-d|with {lib}, as usual]].",
        "A: Do you want another package manager for the dependencies of {svc}?",
        "+U: [[d|use {lib2} then]]",
    ],
    &[
        "U: retry budget of {svc}: [[-i|{n} attempts]]",
        "A: The retry budget of {svc} is used up in seconds when the upstream is down.",
        "+U: Then [[i|go down to {n2}]].",
    ],
    &[
        "U: Batch window in {svc} is [[-i|{n} seconds]].",
        "A: The batch window in {svc} looks too short for the big tenants.",
        "+U: ok, [[i|double digits won't do, take {n2}]] seconds",
    ],
    // The subject is a pronoun.
    &[
        "U: The replica of {svc} lives [[-i|in {place}]].",
        "U: About the replica of {svc}. It was moved, [[i|it's in {place2}]].",
    ],
    &[
        "U: Backups of {svc} are kept [[-c|for {n} days]].",
        "U: One more thing on the backups of {svc}: legal called. [[c|They must be kept {n2} days]].",
    ],
    // Rules that are lifted.
    &[
        "U: Don't deploy {svc} [[-c|before {person} has looked]] at it.",
        "U: You can deploy {svc} without waiting for {person}, that review is done. [[c|Tag {svc} releases {flag}]].",
    ],
    &[
        "U: Hold all schema changes in {svc} [[-c|until the audit is through]].",
        "U: The audit of {svc} is over, the hold on schema changes is lifted. [[c|Announce each one in #{table}]].",
    ],
    &[
        "U: For {svc} [[-c|log everything at debug level]], we are hunting something.",
        "U: We found it, the debug logging in {svc} is no longer needed. [[c|Level warn is enough for {svc}]].",
    ],
    &[
        "U: While {person} is away, [[-c|leave the {svc} alerts muted]].",
        "U: {person} is back. Please unmute the {svc} alerts [[c|and route them to {table}]].",
    ],
    // Open items that are done, errors that are fixed.
    &[
        "A: [[-d|Open: backfill of {table} for {svc}]] has not been started.",
        "A: The backfill of {table} has finished, {svc} [[d|reads {table2} from here on]].",
    ],
    &[
        "A: [[-d|TODO rotate the signing key of {svc}]]",
        "T: ./rotate --svc => signing key of {svc} rotated, new key id [[i|{id}]]",
        "+A: The signing key of {svc} has been rotated.",
    ],
    &[
        "T: make integration => FAIL {svc}/checkout_test.go:88: [[-e|{err}: stock is negative]]",
        "A: Root cause of {err} was a missing lock in [[p|{path}]]. The test is green after the fix.",
    ],
    &[
        "A: {svc} crashes on start with [[-e|{err}: no such column {table}]].",
        "A: I ran the missing migration, so {svc} starts cleanly and {err} is gone. [[i|Schema is at {sha}]].",
    ],
    // Decisions that are turned around.
    &[
        "A: Decision: events of {svc} are [[-d|published through {lib}]].",
        "A: We had to revert that: {lib} drops events of {svc} under load. They are [[d|written to {table} first]] and sent \
         from there.",
    ],
    &[
        "A: Agreed with {person}: {svc} [[-d|does soft deletes]].",
        "U: {person} and I talked again. [[d|Rows of {svc} are really deleted]], soft deletes are off the table.",
    ],
    // Assumptions and their answers.
    &[
        "A: I am assuming that {svc} [[-i|bills in USD cents]] until I hear otherwise.",
        "U: {svc} bills [[i|in EUR, four decimals]], to answer your question.",
    ],
    &[
        "A: Which timezone do the reports of {svc} use? I'll go [[-i|with UTC for now]].",
        "U: Reports of {svc} use [[i|the timezone of {place}]].",
    ],
    // Tables and lists, said again with one row changed.
    &[
        "A: Settings of {svc} so far:\n\n| setting | value |\n|---|---|\n| [[-i|workers | {n}]] |\n| queue | {flag} |\n| \
         region | {place} |\n",
        "A: Settings of {svc} after the tuning:\n\n| setting | value |\n|---|---|\n| [[i|workers | {n2}]] |\n| queue | {flag} |\n| \
         region | {place} |\n",
    ],
    &[
        "U: For {svc}:\n- owner: {person}\n- [[-i|max body: {n} KB]]\n- bucket: {bucket}\n",
        "U: For {svc}:\n- owner: {person}\n- [[i|max body: {n2} KB]]\n- bucket: {bucket}\n",
    ],
    // A tool knows better.
    &[
        "U: {svc} should be at version [[-i|{ver} in staging]].",
        "T: helm list => {svc} chart deployed, app version [[i|{ver2}]]",
        "+A: So {svc} in staging is at version {ver2} and not what we thought.",
    ],
    &[
        "A: According to the docs {svc} reads its config [[-p|from {path}]].",
        "T: strace -e openat => openat(AT_FDCWD, \"{path2}\", O_RDONLY) = 5",
        "+A: The docs are out of date: {svc} reads its config [[p|from {path2}]].",
    ],
    // One fact of many in a paragraph.
    &[
        "U: Some background on {svc}: it was written by {person} in a hurry, [[i|it keeps its state in {table}]], and every \
         message is acknowledged after [[-i|{n} seconds at most]]. The team in {place} depends on it, so [[c|talk to {place} before \
         an outage]].",
        "U: I checked with the authors of {svc}: messages are acknowledged after [[i|{n2} seconds at most]].",
    ],
    &[
        "A: I read through {svc}. It has two loops, the cleanup one [[-i|fires every {n} minutes]], and [[p|{path} decides what is \
         stale]]. None of that is documented. The second loop only emits metrics.",
        "A: Small fix to my notes on {svc}: the cleanup loop [[i|fires every {n2} minutes]], the constant is overridden at \
         startup.",
    ],
    // Other words for the same.
    &[
        "U: The maximum number of parallel jobs in {svc} is [[-c|{n} jobs]].",
        "U: concurrency cap for {svc}: [[c|{n2} jobs]] from here on",
    ],
    &[
        "U: Customers of {svc} get their money back [[-c|within {n} days]].",
        "U: The refund period of {svc} is [[c|{n2} days]] under the new terms.",
    ],
    // Paths.
    &[
        "A: The feature switch of {svc} is defined in [[-p|{path}]].",
        "A: After the clean-up the feature switch of {svc} is defined in [[p|{path2}]].",
    ],
    &[
        "U: Put the runbook of {svc} under [[-p|{path}]].",
        "E: {path}",
        "U: Sorry, wrong place. The runbook of {svc} belongs in [[p|{path2}]].",
    ],
    &["T: cat env.prod => {env}=[[-i|{big}]]", "U: I have just set {env} [[i|to {big2}]] in prod."],
    &[
        "R: deploy/values.yaml => {flag}:\n  replicas: [[-i|{big}]]\n",
        "R: deploy/values.yaml => {flag}:\n  replicas: [[i|{big2}]]\n",
    ],
];
