//! Owns the English scripts about a webhook that charges twice, a table that is partitioned, and a checkout page.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "en-double-charges",
        lang: Lang::En,
        system: "You are a coding agent in a Go repository. Use the tools, be brief.",
        script: CHARGES,
    },
    Scenario {
        name: "en-partition-events",
        lang: Lang::En,
        system: "You help a database team. You may read anything and write migrations.",
        script: PARTITION,
    },
    Scenario {
        name: "en-checkout-page",
        lang: Lang::En,
        system: "You are a front end engineer's assistant with shell and editor.",
        script: CHECKOUT,
    },
];

const CHARGES: &str = r#"
= merchant mrc_?????81¦acct-^^#####¦M-77####
= dups 1,3##¦2,0##¦3,7##
= evt evt_1N????????q¦evt_3P????????z¦wh-????-????
= inc INC-4###¦INC-7###¦PAY-2###
= ttl 36 hours¦72 hours¦five days
= lock a redis SETNX lock¦an advisory lock on the merchant row¦an in-process mutex
= table processed_events¦webhook_receipts¦seen_deliveries
= handler internal/hooks/deliver.go¦internal/webhook/receiver.go¦svc/payments/inbound.go
= oldport 85##¦91##¦70##
= newport 186##¦187##¦192##
= build payd-2.1#.#-rc#¦payd-3.0.#-hotfix#¦payd-1.9#.#+fix
U «Morning. We charged some people twice last night and support is on fire.¦hey, so customers got billed twice yesterday evening. ugh.¦We have a duplicate-charge problem in production, please investigate.» The ticket is [[I:%inc%]], and «the merchant that complained loudest is¦the account to look at is» [[I:%merchant%]]. «One rule:¦Before you start:» [[C:do not replay any webhook against live]], finance has to sign off on that.
A Understood, I start with the handler and the delivery log.
T read ¦ [[P:%handler%]] ¦ go ¦ 	// NOTE: the provider gives up after 9s and delivers again
T bash ¦ zgrep charge /var/log/payd/deliver.log.1.gz ¦ log ¦ duplicate delivery [[I:%evt%]] handled by two workers within 40 ms
A Two workers took the same delivery, %evt%, within 40 ms of each other. There is no idempotency check before the charge, only after it.
U «Right, I feared that.¦ok makes sense.¦I see.» How would you guard it?
A «My suggestion:¦I would do this:» [[~D:guard it with %lock%]] around the whole handler, since that is the smallest change.
T bash ¦ go test ./internal/... -run Webhook ¦ log ¦ --- FAIL: TestConcurrentDelivery: [[E:want 1 charge, got 2]]
U Also, the public JSON of the refund endpoint [[C:must stay byte for byte the same]]. A partner parses it with regexes, don't ask.
A Noted. I will not touch that serializer.
T sql ¦ select * from charges where merchant = '%merchant%' order by created_at ¦ table
A The failing test reproduces it: with two goroutines we charge twice. Locally the service listens on [[~I:port %oldport%]] for the fake provider.
U Talked to Sana from platform. A lock is not enough since the pods restart all the time. «Let's instead¦We'd rather» [[D:insert the event id into %table% first]] and let the unique constraint decide. So drop the lock idea.
A Agreed: a unique row survives restarts, and the database serializes for us. Writing the migration.
N The migrations live here; I want the naming right.
T bash ¦ ls db/migrations ¦ ls
T read ¦ [[P:db/migrations/0%newport%_receipts.up.sql]] ¦ ddl
A One thing to decide: how long do we keep those rows? The provider retries for up to a day.
U Keep them [[D:for %ttl%, then a nightly purge]]. And [[C:no new dependencies]], not even for the purge job.
T bash ¦ make migrate-test ¦ log ¦ pq: [[E:could not create unique index "%table%_event_key"]]
A The index cannot be built as there are duplicates already in the staging copy. I «need to dedupe first¦have to remove those first», keeping the oldest row.
T sql ¦ delete from %table% a using %table% b where a.ctid > b.ctid and a.event_id = b.event_id ¦ table
U fyi the fake provider moved, [[I:it listens on %newport%]] since this week, the older one is gone.
A Thanks, I «updated¦changed» my environment. The test setup reads it from [[P:test/fixtures/provider.env]], so that is where it goes.
@02 U Which Go are we on in CI? I keep forgetting. [[~I:I think 1.21.4]].
@02 T bash ¦ cat .github/workflows/ci.yml ¦ yaml ¦ # pinned with infra: [[I:go-version 1.22.7]]
@02 A CI pins a newer one than you remembered: see the workflow file, it was raised in spring.
T bash ¦ go test ./... -race ¦ log ¦ WARNING: DATA RACE in (*Receiver).ack — [[E:previous write at receiver_ack.go:118]]
A The race detector points at line 118 of the ack path. It is a shared buffer, and I think it explains the garbled receipts in support's screenshots. I [[D:give every request its own ack buffer]]; the pool saved nothing measurable.
U «nice find¦Great catch.¦Good.» Please [[C:keep the commit for the race separate]] so that we can backport it.
T bash ¦ git log --oneline -40 ¦ gitlog
U The backport goes to [[~D:the release/2.x branch]] I guess.
A Fine. I looked at who else calls the charge function: only the retry worker in [[P:cmd/retryd/main.go]], and it bypasses the handler, so it needs the same guard.
T read ¦ cmd/retryd/main.go ¦ go
U Oh wow. Yes, guard it too. Correction on the backport: 2.x is frozen, [[D:backport to stable-autumn only]].
T bash ¦ ./scripts/loadtest.sh --merchants 40 ¦ metrics
A Load test: p99 went from 41 to 44 ms, which is within [[I:the 60 ms budget]] that the runbook gives. No duplicates in 200k deliveries.
U Good. Who has to approve? I forgot: [[C:Oluwaseun must review anything under db/]] before it merges.
T read ¦ [[P:docs/runbooks/duplicate-charges.md]] ¦ doc ¦ Refund batches are capped: [[C:never more than 250 refunds per batch]] (bank limit).
A The runbook also has the refund procedure and its cap, which matters for the cleanup of last night.
U How many are affected?
T sql ¦ select count(*) from charges c join charges d using (order_id) where c.id < d.id ¦ table ¦ 90001 | affected orders | [[I:%dups% duplicates]] | NULL |
A I count the duplicates in the last row of that result; with the cap that means several batches. First attempt at a dry run failed.
T bash ¦ ./bin/refund --dry-run --ticket %inc% ¦ log ¦ refund: upstream said [[E:RFD_LIMIT_%newport%]]: currency mismatch on 3 orders
U Those three are the Swiss ones. «Leave them to¦They go to» finance, [[D:CHF orders are refunded by hand]].
T bash ¦ make release-candidate ¦ log ¦ tagged [[I:%build%]]
A The candidate is built and tagged. What is left: review, roll out, dry run of the refunds.
U Perfect, I'll ping the reviewers.
A Good. I wait for the review and then prepare the refund batches.
"#;

const PARTITION: &str = r#"
= tbl device_events¦audit_trail¦clickstream_raw
= host pg-core-0#.lan¦db-eu-#.internal¦ora-bridge-#.corp
= slot slot_?????¦repl_????_a¦cdc_?????
= batch 15,000¦40,000¦8,500
= job job-####-^^¦run/#####¦task ^^-####
= lsn 5F/????????¦2A/????????¦C1/????????
= few 61,4##¦118,0##¦23,9##
= ext 64##¦72##¦39##
= days 400 days¦18 months¦three years
= key tenant_id¦site_id¦org_id
U Hello! «I'd like your help with¦We need to get on with» splitting the %tbl% table, it's 2.3 TB now and vacuum never finishes. Please read first and [[C:run nothing on the primary during office hours]], i.e. 8 to 18 CET.
A Happy to help. I will look at the definition and at how it is queried.
T read ¦ [[P:schema/tables/%tbl%.sql]] ¦ ddl
T sql ¦ select query, calls, mean_exec_time from pg_stat_statements where query ilike '%tbl%' ¦ table
A Nearly all the queries filter by time, a few by %key%. My first proposal is to [[~D:hash partition by %key% into 64 parts]].
U Hmm. Retention matters more to us than %key%; dropping old data must be cheap. We keep [[C:%days% of history]], legally required.
A Then time is the better choice: [[D:range partitions, one per calendar month]], and retention is a detach. I withdraw the other proposal.
U Agreed. The replica you can play on is [[I:%host%]], user is `migrator`.
T bash ¦ psql -h %host% -c '\d+ %tbl%' ¦ ddl ¦ -- trigger trg_%tbl%_mirror is owned by the billing team
A There is a trigger owned by the billing team on it. «May I¦Should I» move it along?
U No. [[C:billing's mirror trigger stays exactly as it is]], they are in the middle of an audit.
T bash ¦ pg_dump --schema-only -h %host% app ¦ ddl
T sql ¦ insert into %tbl%_new select * from %tbl% limit 100000 ¦ table ¦ ERROR: [[E:no partition of relation "%tbl%_new" found for row]]
A Rows from before 2019 have no home. I will [[D:add a default partition called %tbl%_attic]] for them; they are few.
U How few?
T sql ¦ select count(*) from %tbl% where created_at < '2019-01-01' ¦ table ¦ 1 | before 2019 | [[I:%few% rows]] | NULL |
A See the count in the result: small enough for one table.
A For the indexes I assume [[~C:all seven old indexes are wanted again]].
U ok. For the backfill use [[~I:batches of 100k]], that worked last time.
T bash ¦ python tools/backfill.py --dry-run ¦ log ¦ replica lag 412 s, [[E:canceling statement due to conflict with recovery]]
A The dry run made the replica lag by almost seven minutes, and then queries on it were cancelled. The chunks are too large.
U Ouch. Go smaller then, [[I:%batch% rows at a time]], and «sleep two seconds¦pause a bit» in between.
A Both done.
U About the indexes: two are dead. [[C:skip the two gin indexes on payload]], nobody searches there any more.
T read ¦ [[P:tools/backfill.py]] ¦ py
A The script had no resume point either. I [[D:store the last copied id in backfill_progress]] after every chunk, so that it can be stopped at any time.
@01 U nice, that one bit us before. btw logical replication: the consumer is the warehouse, its slot is [[I:%slot%]]. Losing it means a full resync.
@2 U Good, that is overdue. Beware of the warehouse: it reads from [[I:%slot%]], and if that slot is lost they resync for a week.
T sql ¦ select slot_name, confirmed_flush_lsn from pg_replication_slots ¦ table ¦ 2 | %slot% | [[I:%lsn%]] | active | t
A I noted the position of the slot before any change, so we can prove afterwards that nothing was lost. The publication does not use the root's identity yet: I «will set¦set» [[D:publish_via_partition_root to true]], otherwise the warehouse would see 80 tables.
T web ¦ https://www.postgresql.org/docs/current/logical-replication-publication.html ¦ page
U The cut-over was planned for [[~D:the night of Saturday the 9th]].
A All right. Until then, the rename script is at [[P:migrations/2025/swap_%tbl%.sql]]; it takes a short exclusive lock.
T bash ¦ psql -f migrations/2025/swap_%tbl%.sql staging ¦ log ¦ [[E:canceling statement due to lock timeout]] after 3000 ms
A Somebody holds the table for longer than three seconds. I look for who that is.
T sql ¦ select pid, state, query from pg_stat_activity where wait_event_type = 'Lock' ¦ table ¦ 31 | nightly-report | idle in transaction | 4 h | started by [[P:/opt/reports/nightly_rollup.sh]]
A The nightly roll-up leaves a transaction open for hours. It must be paused for the swap.
U I'll tell Bartek, he owns it. And «please¦also», [[C:lock_timeout must never exceed 5 seconds]] in any of your scripts.
T bash ¦ pgbench -h %host% -f bench/read_mix.sql -T 120 ¦ log
U Change of plan: marketing has a campaign that weekend. [[D:cut over on Tuesday the 19th at 22:30]].
A «Moved.¦Noted.» I changed the announcement draft as well.
T read ¦ [[P:docs/announcements/%tbl%-cutover.md]] ¦ doc
T sql ¦ explain analyze select * from %tbl%_new where created_at > now() - interval '1 day' ¦ table
A Partition pruning works: two partitions are read and the p95 falls from 900 to 35 ms.
T bash ¦ ./ops/schedule create --at 'tue 22:30' ¦ log ¦ scheduled as [[I:%job%]], approval pending
A Scheduled, approval pending. The rollback is [[D:rename back and replay from the trigger log]], tested twice.
U Superb. Last thing: if there's trouble, [[I:call the DBA phone, extension %ext%]].
T bash ¦ python tools/backfill.py --status ¦ log
A Backfill is at 71 % and the lag stays below two seconds. I will check on it again in the evening.
"#;

const CHECKOUT: &str = r#"
= comp src/checkout/AddressStep.tsx¦src/cart/PaymentForm.tsx¦app/purchase/DeliveryPanel.tsx
= flag new_checkout_?????¦exp-checkout-####¦co.redesign.v#
= lib react-hook-form¦formik¦final-form
= key SHOP-1###¦WEB-9###¦CHK-3##
= color hex 0b5f??¦hex 7a1f??¦hex 2d2d??
= pr 48##¦51##¦66##
= size 182 kB¦210 kB¦164 kB
= figma node 41:####¦frame 7#-###¦page 3/frame ####
= wid w-????????¦sess_??????¦rec-####-??
U hi! «picking up the checkout rework from Petra, she's on leave.¦taking over the checkout thing.» Story is [[I:%key%]]. Design is in Figma, [[I:%figma%]]. «Hard requirement:¦One thing that's not negotiable:» [[C:it must work with a keyboard alone]].
A Hi! I start by reading the component and running its tests.
T read ¦ [[P:%comp%]] ¦ ts
T bash ¦ npx vitest run src/checkout ¦ jest ¦ AssertionError: [[E:expected focus on #postcode but was on body]]
A There is a real bug already: after a failed validation the focus is lost to the body. I fix this first.
U great. For the forms I think we use [[~D:%lib% with yup schemas]], like in the account area.
T bash ¦ npm ls --depth 0 ¦ npm
A It's installed, but adds 31 kB to the entry chunk. What is the limit?
U [[C:the entry chunk has to stay under %size%]] gzipped, CI checks that. Hmm, so maybe no form library at all? The form has six fields.
A Six fields are easy by hand: [[D:plain constraint validation]], no form library. That supersedes what we said before.
U love it.
T bash ¦ npm run build ¦ npm ¦ (!) [[E:chunk vendor-legacy exceeds 500 kB]] after minification
A The build complains about a vendor chunk; that's the old analytics package, imported from [[P:src/vendor/tagpipe/index.ts]].
U Marketing owns this. [[C:leave tagpipe in until Q3]], there's a contract.
A Fine, then I [[D:load tagpipe lazily after first paint]], which leaves its behaviour alone.
T bash ¦ npx lighthouse http://localhost:4173/checkout --output json ¦ json ¦   {"id": 3, "audit": "color-contrast", "score": 0, "node": "button.pay", "note": "[[E:contrast ratio 3.2:1 on button.pay]]"},
A Lighthouse says the pay button has too little contrast. Which colour may I use?
U Brand says [[~I:use accent-500]] for primary buttons.
T read ¦ [[P:src/theme/tokens.css.ts]] ¦ ts
A That token gives the ratio which Lighthouse rejects, so it can't be it. The next darker one is okay.
U Asked brand: the pay button becomes [[I:%color%]], everything else keeps its token.
T bash ¦ npx playwright test checkout --reporter line ¦ log ¦ [[E:Timeout 30000ms exceeded waiting for iframe]] in checkout.spec.ts:77 (webkit)
A On WebKit the card iframe never shows up, with Chromium it does. «I'll look into that.¦Looking.»
T web ¦ https://docs.example-pay.com/elements/browser-support ¦ page ¦ <p>Safari blocks the element unless the page sends [[D:Permissions-Policy: payment=(self)]].</p>
A The provider's page explains it: a header is missing. We decided on other headers in the edge config, so I add that one to [[P:infra/edge/headers.toml]].
U Sounds right. Hide all of this behind a flag, name's [[I:%flag%]].
T grep ¦ useFlag\( ¦ grep
A Flags are evaluated on the server here, so there is no flicker. Roll-out: [[~D:start with 50 percent of visitors]]?
U Too brave :) start with staff, [[D:then 5 percent in Portugal]].
A Good, staff and then a small market.
T read ¦ [[P:src/flags/rollout.json]] ¦ json
@02 U do we support IE mode in Edge still? support asked
@02 T bash ¦ cat .browserslistrc && npx browserslist --coverage ¦ log ¦ coverage 93.1%, [[C:Safari 15.4 is the oldest we support]]
@02 A No. The oldest browser in the list is a Safari; it's in the coverage line above.
@1 U support asks about old browsers. [[C:nothing older than Chrome 109]] is my answer.
@1 A Thanks, the build target is set accordingly.
T bash ¦ npx vitest run ¦ jest
U Translations: «please¦could you» [[C:keep German strings in the formal Sie form]]. There were complaints.
T bash ¦ git diff --stat origin/main ¦ diff
A Done for the 14 new strings; they are in [[P:locales/de/checkout.po]]. The old file next to it is no longer loaded.
U Can you check the session recording of the guy who couldn't pay? [[I:%wid%]]
T bash ¦ ./tools/recording %wid% --events ¦ log ¦ user pressed pay 6 times, response [[E:409 basket_version_stale]]
A He pressed six times, each answered with a conflict: his basket was changed in another tab. The page swallowed the message.
U oh no. What do we do then?
A I would [[D:reload the basket and show what changed]] rather than to retry silently.
U yes please.
T read ¦ src/checkout/useBasket.ts ¦ ts
A Implemented with a test. Reviewer is still [[~I:Petra (@pkovacs)]]?
U No, she's away; [[I:ask @tunde-w for review]].
T bash ¦ gh pr create --fill ¦ log ¦ created pull request [[I:checkout-web!%pr%]]
A The pull request is open and Tunde is asked.
U 🎉 Then take the screenshots for the release note, please.
T bash ¦ npx playwright test screenshots ¦ log
A Screenshots are taken for three widths and both themes.
"#;
