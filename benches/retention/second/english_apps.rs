//! English scripts about applications: a web shop, a mobile app, a refactoring, support work.

pub(super) const SCRIPTS: &[&str] = &[SHOP, MOBILE, REFACTOR, SUPPORT];

const SHOP: &str = r"#name en-shop-webhooks
#ext ts
#root apps/storefront/src
#words order basket coupon refund webhook payment invoice customer shipment
#tools bash read_file grep
#noise code code grep log test json table build
S: You are a coding agent working in the repository of an online shop. You have a shell, can read, search and edit files. Keep answers short and say what you did.
U: Morning. Customers get charged twice when they ⟨hit the back button on the payment page¦reload the confirmation page⟩. Finance counted ⟦i:⟨41¦57⟩ double charges⟧ since Monday. Could you find out why? It's tracked as ⟦i:SHOP-⟪num4.t⟫⟧.
A: I'll start from the payment handler and the webhook receiver and see whether something is run twice.
~
U: Before you dig in: ⟨please leave the tables of the accounting export alone, ⟦c:auditors are in the house until Friday⟧¦nobody may change the accounting export this week, ⟦c:the auditors are reading from it right now⟧⟩. And you can reach the payment sandbox on ⟦-i#1:port ⟨4242¦4343⟩⟧ of my machine.
A: Noted. I'll stay away from the export and only read there.
T: bash | docker compose logs payments --since 2h | grep -v healthz
@log 45
payments-1 | ⟦e:⟨ERR_IDEMPOTENCY_KEY_REUSED¦ERR_DUPLICATE_CAPTURE⟩⟧ capture for order 88⟪num4⟫ was sent again after 3.2 s, provider answered 409
payments-1 |     at captureOrder (⟦p:apps/storefront/src/payments/⟨capture_flow.ts¦capture_order.ts⟩⟧:118:13)
@log 14
A: That's the spot: the capture is sent again ⟨when the session is restored¦whenever the page state is rebuilt⟩, with a fresh key each time, so the provider can't recognise the repeat.
~
U: Hm, and where would you create the key then? On the client?
A: No. I'd derive it on the server from the order and the attempt. ⟨A client can lose its storage, a row can't, so ⟦d:the key gets its own column on the orders table⟧.¦Browsers lose their storage all the time, hence ⟦d:we store the key next to the order row⟧ and the browser never sees it.⟩
U: fine with me. ⟨We promised the payment provider not to send more than ⟦c:20 captures per second⟧ though.¦One thing, our contract with the provider caps us at ⟦c:12 captures per second⟧.⟩
~
A> Adding the column and the lookup.
T: edit_file | ⟦p:apps/storefront/migrations/⟨0143_order_capture_key.sql¦0151_capture_keys.sql⟩⟧ ;; alter table orders add column capture_key text unique;
ok, 1 file written
T: bash | npx vitest run payments
@test 30
 ✗ payments > capture twice returns the first receipt
   ⟦e:⟨AssertionError: expected 2 to be 1 // receipts¦TypeError: receipt.charge is not iterable⟩⟧
@test 12
A: One left that fails: the second call still writes a receipt of its own. I'll make the receipt depend on the key too.
~
U: Update from the infra folks, the payment sandbox got moved. ⟨From here on it answers at ⟦i#1:port 4711⟧, the former one is switched off.¦It listens on ⟦i#1:port 4890⟧ since noon, nothing behind the old one any more.⟩
A: Thanks, I've changed my environment file accordingly.
~
U: About the rollout. ⟦-d#2:⟨Let's put it live on Thursday evening¦I'd ship it on Wednesday night⟩⟧, when traffic is low.
A: Works for me. Rolling back is one command: ⟦d:⟨npm run deploy -- --rollback storefront¦./ops/rollback.sh storefront --to previous⟩⟧ (I tried it on the preview environment).
~
U: can you also have a look at what happens with gift cards? Somebody from support, ⟨Marta¦Oleg⟩, says that a card was emptied twice; the order was ⟦i:GC-⟪num6.g⟫⟧.
T: sql | select id, card, amount, created_at from gift_card_bookings where order_ref like 'GC-%' order by created_at desc limit 20
@table 24
(24 rows)
A: Same cause: bookings of a card go through the same flow and inherit the missing key. ⟨I'd rather not widen this change, so ⟦d:gift cards follow in a second pull request⟧.¦To keep the review small ⟦d:I'll leave gift cards for a follow-up branch⟧.⟩
~
U: Marketing just told me there's a ⟨sale¦flash sale⟩ starting that very evening, so we can't do it then. ⟦d#2:⟨Go live moves to Monday 6 am¦New slot is Sunday before 8 am⟩⟧.
A: OK, I've put the new slot into the pull request's description.
T: bash | git push origin HEAD && gh pr create --fill
remote: Resolving deltas: 100% (14/14), completed with 9 local objects.
To github.com:harbour-goods/shop.git
   ⟪hex7⟫..⟪hex7⟫  HEAD -> fix/double-capture
⟦i:https://github.com/harbour-goods/shop/pull/⟪num4.p⟫⟧
~
U: Reviewer's asking for a switch to turn it off. ⟨Name it ⟦d:CAPTURE_KEY_ENFORCED⟧, on by default.¦He'd like it to be called ⟦d:STRICT_CAPTURE_KEYS⟧ and to be on unless set otherwise.⟩
A: Done, documented in the readme of the package. ⟨What I haven't got to: ⟦d:the Klarna path has no test yet⟧.¦Still to do on my side: ⟦d:nobody has tried it with Apple Pay⟧.⟩
~
U: Good. Then clean up whatever is lying around, and give me a short summary afterwards.
";

const MOBILE: &str = r#"#name en-mobile-offline
#ext kt
#root app/src/main/java/io/fieldnotes
#words note photo sync draft account upload marker region queue
#tools shell open_file search_code
#noise code code grep log test build list
S: You help the developers of a mobile note taking app for field biologists. Tools: shell, open_file, search_code, edit_file. Android is written in Kotlin.
U: Hi! ⟨Notes taken without reception sometimes vanish after the phone is back online.¦Users in the mountains lose notes once their phone finds a network again.⟩ A ranger in ⟨Norway¦Chile⟩ sent us a log bundle. The crash group is ⟦i:⟪hex8.c⟫-FN⟧.
T: shell | adb logcat -d -s FieldSync:V
@log 40
E FieldSync: ⟦e:⟨SQLiteConstraintException: UNIQUE constraint failed: note.local_id¦SQLiteDatabaseLockedException: database is locked (code 5 SQLITE_BUSY)⟩⟧
E FieldSync:   at io.fieldnotes.sync.⟨MergeWorker.mergeRemote(MergeWorker.kt:207)¦PullWorker.applyPage(PullWorker.kt:164)⟩
@log 10
A: The merge gives up halfway, and the worker then marks the batch as sent although part of it never left the phone. Let me read that part.
~
T: open_file | ⟦p:app/src/main/java/io/fieldnotes/sync/⟨MergeWorker.kt¦PullWorker.kt⟩⟧
@code 50
A: I see two ways: a queue table of its own, or a flag per note. ⟨I'd take the table: ⟦d:an outbox table survives a killed process⟧, a flag in memory doesn't.¦A flag gets lost if the system kills us in between; ⟦d:a persisted outbox is the safer choice⟧.⟩
U: Agreed. Remember that a lot of our people have ancient devices. ⟨It has to run on ⟦-c#1:Android 8 and up⟧.¦We support ⟦-c#1:everything from API level 26⟧.⟩ Also ⟨⟦c:no new permissions in the manifest⟧, the store review took three weeks last time.¦please ⟦c:don't ask for background location⟧, the store threw us out for it once.⟩
~
U: How large is the app at the moment?
T: shell | ls -l app/build/outputs/apk/release && ./gradlew :app:dependencies | head -40
-rw-r--r-- 1 dev dev 28⟪num6⟫ app-release.apk
@build 20
A: Around 28 MB. The photo viewer is a third of that.
U: OK. ⟨⟦c:Anything beyond 30 MB⟧ and the rangers won't download it over satellite.¦Keep it ⟦c:smaller than 32 MB⟧, some of them pay per megabyte.⟩
~
A> Writing the outbox now.
T: edit_file | ⟦p:app/src/main/java/io/fieldnotes/sync/⟨Outbox.kt¦OutboxDao.kt⟩⟧ ;; @Entity(tableName = "outbox") data class OutboxEntry(@PrimaryKey val localId: String, val payload: ByteArray, val attempts: Int)
written
T: shell | ./gradlew testDebugUnitTest --tests '*Outbox*'
@test 24
BUILD SUCCESSFUL in 41s
~
U: Which scheduler do you use for the retries? ⟨I was thinking of ⟦-d#2:plain AlarmManager¦We used to have ⟦-d#2:JobScheduler directly⟩⟧ for that.
A: I'll go with that for now, then, and we can look at battery use afterwards.
~
U: I got the numbers of the field test. With that scheduler the phone wakes up ⟨300¦480⟩ times a night. ⟨Can we do something better? I'd say ⟦d#2:WorkManager with a network constraint⟧ replaces it.¦So no. Swap it for ⟦d#2:WorkManager and its backoff policy⟧ please.⟩
A: Replaced. It now waits for a connection instead of polling, and the first retry comes after ⟦i:⟨90¦45⟩ seconds⟧, doubling from there.
T: shell | adb shell dumpsys batterystats --charged io.fieldnotes | head -60
@log 22
~
U: Product decided something today: the old tablets of the park service are out of the picture, ⟨so ⟦c#1:minSdk may go to 29⟧.¦which means ⟦c#1:Android 11 is the new floor⟧.⟩ Should simplify things for you?
A: It does, I can drop the two compatibility shims for storage.
~
T: shell | ./gradlew connectedDebugAndroidTest
@test 18
io.fieldnotes.sync.AirplaneModeTest > notesSurviveReboot[Pixel_4a] FAILED
    ⟦e:⟨java.lang.IllegalStateException: outbox not drained after 120 s¦kotlinx.coroutines.TimeoutCancellationException: drainOutbox⟩⟧
@test 9
A: After a reboot nobody starts the drain, because the receiver is registered in code only. ⟨Moving it to the manifest fixes that.¦It has to be in the manifest.⟩
U: ok. ⟨For beta testers: the build goes to the track called ⟦i:internal-rangers⟧.¦Please publish test builds on the ⟦i:closed-alpine⟧ track only.⟩ The signing key has the alias ⟦i:fn-upload-⟪num3.k⟫⟧.
~
A: The build is up with version code ⟦i:⟪num6.v⟫⟧. ⟨What I couldn't check: ⟦d:behaviour in Doze on Samsung devices⟧.¦Not covered so far: ⟦d:what happens when the SD card is removed⟧.⟩
U: We'll try that in the office. ⟨By the way, Ingrid wants to be told before anything goes to production: ⟦i:ingrid@fieldnotes.example⟧.¦Please ping the release manager first, ⟦i:releases@fieldnotes.example⟧, before it goes to everyone.⟩
~
U: Could you go over the code once more for leftovers?
"#;

const REFACTOR: &str = r"#name en-parser-refactor
#ext rs
#root crates/quill/src
#words token span node scope lexer cursor block table footnote
#tools bash read_file grep
#noise code code code grep test diff git build
S: You are an expert Rust programmer. You work on quill, a markup to HTML compiler, through the tools given. Prefer small steps that compile.
U: I'd like to break up the parser. It's one file of ⟨6 200¦5 400⟩ lines, ⟦p:crates/quill/src/⟨parse.rs¦parser_all.rs⟩⟧, and nobody dares to touch it. What would you suggest?
T: bash | tokei crates/quill && cargo modules structure --lib 2>/dev/null | head -50
@list 30
A: I'd cut along the grammar: blocks, inlines, tables, references, and a small cursor underneath that all of them use.
U: Sounds right. ⟨Two ground rules: the output must remain ⟦c:byte for byte identical⟧ on the corpus, and ⟦-c#1:no new dependencies at all⟧.¦What I care about: ⟦c:not a single HTML snapshot may change⟧, and I want ⟦-c#1:zero additional crates⟧.⟩
~
T: bash | cargo bench --bench corpus -- --save-baseline before
@build 12
corpus/commonmark  time: [⟦i:⟨18.42¦21.07⟩ ms⟧ 18.61 ms 18.83 ms]
A: I've saved a baseline so that we'll notice if it becomes slower.
~
U: How much slower would be okay? ⟨I'd accept ⟦c:three percent¦Let's say ⟦c:up to five percent⟩⟧, not more. Users compile whole books.
A: Clear. I'll compare after each step.
A> First step: the cursor.
T: edit_file | ⟦p:crates/quill/src/cursor⟨/mod.rs¦/bytes.rs⟩⟧ ;; pub struct Cursor<'a> { bytes: &'a [u8], at: usize }
created
T: bash | cargo check -p quill
@build 10
⟦e:⟨error[E0502]: cannot borrow `self.refs` as mutable¦error[E0499]: cannot borrow `*self` as mutable more than once⟩⟧
  --> crates/quill/src/refs.rs:88:17
@build 3
A: The reference map is borrowed while the cursor walks on. ⟨I see no way around splitting those two: ⟦d:definitions get collected in a pass of their own⟧, before any inline is parsed.¦If ⟦d:link definitions are resolved lazily at render time⟧, the parser doesn't need that borrow at all.⟩
~
U: Nice. I think we should keep the old entry point for a while. ⟨⟦-d#2:Keep parse_document as a deprecated wrapper¦Let's leave ⟦-d#2:the old Parser::run in place⟩⟧ for two releases.
A: Fine, it only delegates.
~
T: bash | cargo test -p quill --test snapshots
@test 40
test snapshots::⟦i:⟨nested_list_tight_loose¦table_in_blockquote⟩⟧ ... FAILED
@test 20
---- stdout ----
⟦e:⟨snapshot mismatch: expected <li><p>, found <li>¦snapshot mismatch: 3 columns expected, 2 found⟩⟧
A: One snapshot differs. The old code looked one line further back to decide about blank lines; I had dropped that.
U: Good that we have those. ⟨This oddity came in with ⟦i:⟪hex9.o⟫⟧, see its message for why.¦For the background have a look at commit ⟦i:⟪hex9.o⟫⟧.⟩
~
U: Thinking about it again, crates: ⟨⟦c#1:memchr is okay after all¦fine, ⟦c#1:smallvec may come in⟩⟧, everybody has it in their tree anyway. Nothing else please.
A: That helps, it removes the only hot loop I was worried about.
T: bash | cargo bench --bench corpus -- --baseline before
@build 9
corpus/commonmark  change: [⟦i:⟨-4.1 %¦-6.8 %⟩⟧ p = 0.00 < 0.05] Performance has improved.
~
A: Next the tables. ⟨Column widths were computed twice; I made ⟦d:the delimiter row the single source of widths⟧.¦They had their own notion of escapes. ⟦d:Tables now share the inline escape rules⟧, which is what the reference says.⟩
U: ok. There's someone who depends on our events: ⟨the folks at ⟦i:inkwell-preview⟧¦an editor plugin called ⟦i:quill-live-view⟧⟩, please check that it still builds against us.
T: bash | cd ../downstream && cargo check 2>&1 | tail -30
@build 24
warning: use of deprecated method
A: It builds. One warning, from the wrapper.
~
U: I talked to them. They've already changed over and nobody else calls it. ⟨⟦d#2:Remove parse_document right away¦So ⟦d#2:delete the former entry point now⟩⟧, no need for a grace period.
A: Gone. ⟨The changelog has it under ⟦i:0.14.0¦The entry in the changelog is under ⟦i:0.21.0⟩⟧, breaking changes.
~
U: Fuzzing? ⟨We used to run ⟦d:cargo fuzz run roundtrip -- -max_total_time=900¦I always start it like this: ⟦d:cargo +nightly fuzz run blocks -j 6⟩⟧.
T: bash | ls fuzz/corpus | wc -l; ls fuzz/artifacts
@list 8
⟦p:fuzz/artifacts/⟨roundtrip¦blocks⟩/crash-⟪hex10.z⟫⟧
A: There's a crash from the run: a footnote that refers to itself makes the renderer recurse until the stack is gone. ⟨I haven't fixed it, ⟦d:a depth limit for footnotes is missing⟧.¦It isn't handled yet: ⟦d:self-referencing footnotes need a guard⟧.⟩
~
U: Put it on the list. Then let's look at the docs of the new modules.
";

const SUPPORT: &str = r#"#name en-support-desk
#ext md
#root helpdesk/articles
#words ticket customer device license renewal mailbox tenant invoice reply
#tools run_command read_article search_tickets
#noise doc doc table json log grep
S: You assist the second level support of a company that sells backup software. You can look at tickets and articles, query the licence database (read only) and draft replies. Never promise refunds.
U: Hey, I've got ⟨a hot one¦an urgent case⟩. Customer ⟦i:⟨Brightwater Clinics¦Oakhurst Dental Group⟩⟧, ticket ⟦i:HD-⟪num6.t⟫⟧. Their nightly backups stopped on ⟨the 3rd¦the 9th⟩ and they're not amused. Can you have a look?
T: get_ticket | HD-latest
@json 30
"last_note": "Agent on the file server shows ⟦e:⟨BKP-7731 catalog generation mismatch¦BKP-5120 chunk index unreadable⟩⟧ every night at 02:10, all other machines are green"
A: Only the file server is affected. The code says that the index on the machine and the one in the cloud have drifted apart. I'll look for similar cases.
~
T: search_tickets | catalog index drift after update
@table 26
A: Eleven others in half a year, all of them after an update of the agent while a job was running. ⟨Every one of them was solved with ⟦d:bkagent catalog --rebuild --keep-chunks¦What helped each time was ⟦d:bkctl reindex --from-cloud --no-upload⟩⟧.
U: Right, I know that one. Careful with these people, though: ⟨they're a hospital, ⟦c:no restarts between 7 and 19 o'clock⟧.¦it's a practice with surgery days, so ⟦c:nothing that reboots a machine on Tuesdays⟧.⟩ And ⟨⟦c:only Dr. Hale may approve changes¦⟦c:changes need a yes from Ms. Okafor⟩⟧.
~
U: What about their licence, by the way? I have ⟦-i#1:⟨40 seats¦25 seats⟩⟧ in my notes.
T: sql | select tenant, plan, seats, renewed_until from licences order by tenant limit 30
@table 28
A: I don't see anything blocking there, the plan is active.
~
U: They called. They want ⟦-c#2:⟨a phone call every evening¦an update by mail each hour⟩⟧ until it works again. OK, their right.
A: I'll prepare a short status text for it that you can use.
~
T: run_command | bkdiag unpack bundle.zip --summary
@log 32
agent.log: ⟦e:⟨VSS_E_SNAPSHOT_SET_IN_PROGRESS¦STATUS_DISK_QUOTA_EXCEEDED⟩⟧ while preparing volume E:
@log 10
log kept at ⟦p:⟨C:\ProgramData\BkAgent\logs\agent-0310.log¦D:\BackupSpool\diag\agent.trace⟩⟧
A: ⟨There's a second culprit: another product takes snapshots at the same time. Moving our job is the simplest cure, so ⟦d:the nightly job starts at 03:40¦There's more to it: the spool volume has filled up. I suggest that ⟦d:the spool moves to volume F⟩⟧, then they no longer get into each other's way.
U: Makes sense, they agreed to that on the phone.
~
U: Their account manager wrote me. ⟨They bought more in between: ⟦i#1:65 seats¦After the merger the contract says ⟦i#1:90 seats⟩⟧, so what I told you earlier is out of date. Contract number ⟦i:C-⟪num5.c⟫/⟨B¦K⟩⟧.
A: Thanks, I've corrected it in the draft.
~
U: How big is the thing that would have to be uploaded again if the rebuild fails?
T: run_command | bkctl usage --tenant current --by-machine
@table 20
file server total: ⟦i:⟨3.8 TB¦5.6 TB⟩⟧
A: A full upload would take nine days on their line. ⟨So I'd have ⟦d:a seed disk shipped to them beforehand¦In that case ⟦d:we'd offer them an on-site seed⟩⟧, in case the rebuild doesn't work out.
U: Good thinking. ⟨The warehouse needs the form on ⟦i:https://intra.bk.example/forms/seed-disk¦You order these through ⟦i:https://intra.bk.example/hw/request?type=seed⟩⟧.
~
U: The customer has calmed down: ⟨no need to ring them daily any more, ⟦c#2:one mail when it's finished is enough¦they're fine now with ⟦c#2:a single summary at the end of the week⟩⟧.
A: Good news. I've thrown away the status texts.
T: run_command | bkctl job history --machine fs01 --limit 30
@log 24
job ⟦i:⟪uuid.j⟫⟧ finished: catalog consistent, 0 chunks missing
~
A: The rebuild went through overnight and the first regular backup is green. ⟨We should still write this up: the article ⟦p:helpdesk/articles/agent-update-while-running.md⟧ doesn't mention the error code.¦The place to describe it is ⟦p:helpdesk/articles/catalog-drift.md⟧, it says nothing about updates.⟩
U: Yes please. ⟨Engineering is told as well? The bug is ⟦i:AGENT-⟪num4.b⟫¦And link it to engineering's issue, ⟦i:CORE-⟪num4.b⟫⟩⟧.
A: Linked. ⟨One thing remains open with the customer: ⟦d:a restore test of a single mailbox¦What they still owe us: ⟦d:the retention policy in writing⟩⟧.
~
U: I'll take that up with them next week. Can you draft the article now?
"#;
