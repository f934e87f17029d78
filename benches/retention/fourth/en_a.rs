//! Owns the scripts of English sessions, first half: billing, a payment incident, a checkout page, a data pipeline,
//! firmware, a network migration. How they are read: [`super::play`].

/// The scripts.
pub(super) const SCRIPTS: &[&str] = &[BILLING, INCIDENT, CHECKOUT, PIPELINE, FIRMWARE, NETWORK];

const BILLING: &str = r#"
work: billing
speaks: en
style: polite
lang: py
nouns: invoice ledger payment refund customer plan tax period account credit
dirs: src/billing src/api migrations/versions tests/billing scripts
services: billing-api ledger-worker invoice-mailer tax-proxy
kinds: code log test sql json diff grep page git trace code sql
system: You are a coding agent with access to a repository, a shell and a read-only database connection.
U Good morning. We are splitting the ledger out of the billing service and I would like your help. Before you start: ⟦C the public invoice API must not change⟧, our partners parse it. And please ‹⟦C do not run anything against the production database⟧, the connection you have is for reading the copy only¦keep in mind that ⟦C nothing is to be executed against production⟧; you have the copy for that›.
T code@src/billing/posting.py ~ I'll start with how postings are written today. ⇒ # entries with currency None are dropped silently here\n
A Postings are created in ⟦P src/billing/«pf=posting_engine,entry_writer,journal_core».py⟧, and that is the only place that writes to the ledger tables, so ‹the cut goes there¦that is where I would cut›.
U ‹The copy of the database is at ⟦I-1 ledger-copy-«oh=##».db.internal⟧, user is agent_ro.¦For reading please connect to ⟦I-1 ledger-copy-«oh=##».db.internal⟧ as agent_ro.› The ticket for all of this is ⟦I «tk=BILL-####»⟧, in case you need it in commit messages.
T sql ~ Counting what we would have to move. ⇒ -- entries without account: ⟦I 4«orph=#» thousand entries⟧ (older than 2019)
A How should I handle entries whose account no longer exists? I can drop them or attach them to a placeholder.
+U Attach them, please. ‹Auditors want ⟦D orphaned entries go to account 9999⟧ and nothing deleted.¦Our auditors insist: ⟦D account 9999 collects the orphans⟧, and nothing is deleted.›
A I compared both ways of copying. ‹A dual write is riskier than I like, so ⟦D-2 I'll copy the ledger with nightly batches⟧ and switch over on a quiet day.¦My choice: ⟦D-2 copy the ledger by nightly batch⟧, then switch on a quiet day. Dual writes are riskier.›
T log ⇒ ERROR [ledger-worker] ⟦E LEDGER-«le=###»: period already closed⟧ account=«ac=#####»
A The worker fails with LEDGER-«le» as soon as a batch reaches a closed month; ‹it is not a data problem, ⟦D closed periods have to be reopened per tenant first⟧.¦I looked at the code and the way out is that ⟦D each tenant's closed periods get reopened first⟧.›
?U By the way, ‹⟦C amounts stay in integer cents⟧ everywhere. Somebody tried decimals two years ago and we are still paying for it.¦somebody tried decimals once and it was a disaster. ⟦C Keep amounts as integer cents⟧, please.›
T trace ~ Trying one tenant. ⇒ ⟦E sqlalchemy.exc.DataError: numeric field overflow⟧ in column running_balance
A running_balance is numeric(12,2) on the new side. I widened it in ⟦P migrations/versions/«mg=%%%%%%»_widen_balance.py⟧; with that the tenant goes through.
U ‹A correction from my side: the copy was moved over the weekend. Please connect to ⟦I=1 «nh=finance-mirror,books-replica,acct-shadow».db.internal⟧ from now on, the old host has been switched off.¦The DBAs retired the host I gave you on the first day. The new one is ⟦I=1 «nh=finance-mirror,books-replica,acct-shadow».db.internal⟧, same user.›
T json ⇒   {"tenant": "⟦I tn_«tn=%%%%%%»⟧", "state": "blocked", "reason": "two open periods", "entries": 88121},
+A Of all tenants only tn_«tn» is blocked, by two open periods at once. I'd migrate it by hand at the end.
+U Agreed. That one is our largest customer, so ⟦C tell «ow=Margit,Oluwaseun,Priya» before you touch that tenant⟧.
A I have to take back what I proposed for the copy. Nightly batches would run «hrs=11..19» hours at the measured speed. ‹Instead ⟦D=2 we stream changes through logical replication⟧, which also removes the quiet day.¦So: ⟦D=2 logical replication instead of batches⟧, and no quiet day is needed.›
U ‹Regarding dates: finance closes the quarter, so ⟦C-3 the switch has to be done by March «d1=3..9»⟧.¦Finance would like ⟦C-3 the switch finished no later than March «d1=3..9»⟧, because of the quarter.›
T test ⇒ FAILED tests/billing/test_vat.py::⟦E test_reverse_charge_rounding⟧ - AssertionError: 1901 != 1900
A One cent off in test_reverse_charge_rounding. The old code rounds per line, the new one per invoice. Which is right?
+U Per line, always. ⟦C VAT is rounded per line⟧, it is what the tax office checked.
?A Runbook for the switch is written: ⟦P docs/runbooks/ledger-«rb=cutover,switch,handover».md⟧. It names each step with the person in charge.
T yaml@deploy/ledger.yaml ⇒   # slot created by replication setup\n  slot_name: ⟦I ledger_slot_«sl=%%%%»⟧
U I spoke to finance this morning. They gave us more room: ‹⟦C=3 the new deadline is April «d2=11..28»⟧, so we need not hurry.¦we now have until ⟦C=3 April «d2=11..28» for the switch⟧.›
A Lag on the slot grew because vacuum was blocked; ‹⟦D replication lag alert set to «lg=3..9»00 MB⟧, anything above pages us.¦I put an alert on it: ⟦D page when lag exceeds «lg=3..9»00 MB⟧.›
?U For the reviewers: ‹please ⟦C keep each pull request under 400 lines⟧, they are two people.¦there are only two of them, so ⟦C no pull request above 400 lines⟧ if you can.›
A The comparison job reports zero differences for all tenants except tn_«tn». ‹Its full report is in ⟦P reports/compare-«cp=%%%%».csv⟧.¦I saved the differences to ⟦P reports/compare-«cp=%%%%».csv⟧ for you.›
U Thank you. If something goes wrong on the day, ‹⟦D we roll back by flipping LEDGER_SOURCE⟧, not by restoring.¦⟦D rollback means flipping LEDGER_SOURCE⟧ and nothing else.›
"#;

const INCIDENT: &str = r#"
work: incident
speaks: en
style: terse
lang: go
nouns: gateway charge token session route merchant pool circuit shard limiter
dirs: cmd/gateway internal/pool internal/charge deploy/k8s pkg/limiter
services: pay-gateway token-vault charge-router risk-scorer edge-proxy
kinds: log log table code json yaml trace grep log test git
system: You are an on-call assistant. You may read logs, run kubectl and open pull requests.
U payments failing since 04:10 utc. incident is ⟦I «inc=INC-#####»⟧. ⟦C don't restart token-vault⟧, it loses unsealed keys
T log ⇒ ERROR [pay-gateway] upstream token-vault: ⟦E x509: certificate has expired⟧ serial=«ser=%%%%%%»
A First hard evidence: pay-gateway rejects token-vault because its certificate ran out. ‹So far ⟦D-1 the expired certificate is my root cause⟧.¦Working theory: ⟦D-1 an expired certificate is the root cause⟧.›
+U ok. cert lives in secret ⟦I «sec=vault-mtls,vault-tls-internal,tv-peer-cert»-«sv=##»⟧, ns payments
T table ⇒ payments    charge-router-«crp=%%%%%»          0/1    ⟦E CrashLoopBackOff (exit 137)⟧   41        3h
A charge-router is being killed for memory, exit 137, which a certificate does not explain. Looking at its pool code.
T code@internal/pool/acquire.go ⇒ // waiters are appended but never removed on ctx cancel\n
A Found it. ‹In ⟦P internal/pool/«pp=acquire,waitlist,checkout».go⟧ cancelled waiters are never removed, so each timeout leaks.¦The leak is in ⟦P internal/pool/«pp=acquire,waitlist,checkout».go⟧: waiters stay in the list after their context is cancelled.›
A I revise: the certificate only triggered it. ‹⟦D=1 The real cause is the waiter leak in the pool⟧; with a healthy pool the retry would have succeeded.¦⟦D=1 What actually broke us is the pool's waiter leak⟧.›
U ‹until fixed: ⟦C-2 cap traffic at «cap=20..45» percent⟧. edge-proxy weight¦for now ⟦C-2 hold traffic to «cap=20..45» percent⟧ on edge-proxy›
T yaml@deploy/k8s/edge-proxy.yaml ⇒   # weights are applied by the rollout job\n  configmap: ⟦I edge-weights-«ew=%%%%»⟧
?A Weights are read from edge-weights-«ew», so a change there needs ⟦D a rollout of edge-proxy after each weight change⟧.
U status page: only «who=Dana,Iris,Tomasz» posts. ‹⟦C you never post to the status page⟧¦⟦C no status page posts from you⟧›
T json ⇒   {"merchant": "⟦I mrc_«mr=#####»⟧", "failed": 18233, "currency": "SEK", "state": "retrying"},
+A Two thirds of the failed charges belong to mrc_«mr»; they retry without backoff and keep the pool full.
+U ok ‹⟦D rate limit that merchant to «rl=2..8»0 rps⟧¦⟦D «rl=2..8»0 rps for that merchant⟧, limiter config›
A Patch is up as ⟦I PR #«pr=4###»⟧: waiters are removed on cancel, plus a test with «wt=200..900» cancelled contexts.
T test ⇒ --- FAIL: ⟦E TestAcquireAfterDrain⟧ (2.01s)\n    acquire_test.go:88: pool: got closed, want conn
A TestAcquireAfterDrain fails on my branch but also on main since Tuesday. ‹I fixed it by closing after the last waiter, ⟦D drain closes only after the last waiter⟧.¦Decision: ⟦D the pool closes after its last waiter, not before⟧.›
?U pasted from slack:\n⟪log⟫
U who reviews? ‹⟦C-3 Bertrand signs off on the hotfix⟧¦⟦C-3 needs Bertrand's approval⟧›
?1U hotfix branch name: ‹⟦C-4 branch off release/«rb=4.1#»⟧¦take ⟦C-4 release/«rb=4.1#» as the base⟧›
T log ⇒ WARN  [risk-scorer] fallback model used, ⟦E scorer returned SCORE_STALE⟧ for 97% of calls
A Side effect: risk-scorer answers SCORE_STALE because its feature feed runs over the same pool. Fraud checks are weaker at the moment.
+U then ⟦C block charges above 500 EUR⟧ while that lasts
?1A release/«rb» no longer builds (removed base image). ‹⟦D=4 I cut the hotfix from tag v«tg=5.0.#»⟧ then.¦So ⟦D=4 the hotfix starts at tag v«tg=5.0.#»⟧.›
U bertrand is on a plane. ‹⟦C=3 Ngozi approves instead⟧¦⟦C=3 approval comes from Ngozi⟧ now›
A Heap dump of one pod before I let it go: ‹⟦P /mnt/dumps/charge-router-«hd=%%%%».hprof⟧, 6 GB.¦kept at ⟦P /mnt/dumps/charge-router-«hd=%%%%».hprof⟧.›
T table ~ Hotfix on one canary pod. ⇒ payments    charge-router-canary-0          1/1    Running   0         22m
A Canary has flat memory for 20 minutes. ‹It was 4 s, now ⟦I p99 is «p9=110..190» ms⟧.¦Latency: ⟦I p99 of «p9=110..190» ms⟧, it was 4 s.›
U ‹good. lift the cap: ⟦C=2 full traffic again⟧¦cap is off. ⟦C=2 all traffic goes back on⟧›
?A Timeline for the postmortem is in ⟦P postmortems/2024-«pm=1#»-pool.md⟧; times are UTC.
U followup: ‹⟦D cert expiry alarm at 21 days⟧¦⟦D alarm 21 days before certs expire⟧›, assign platform
T json ⇒   {"job": "renew-certs", "last_run": "never", "disabled_reason": "quota", "owner": "platform"},
U and ⟦C no deploys until the postmortem is reviewed⟧, except this
A Noted. The replay of failed charges must run with the idempotency prefix ‹⟦I rpl-«ip=%%%%%»⟧, otherwise merchants are charged twice.¦⟦I rpl-«ip=%%%%%»⟧; without it customers would pay twice.›
"#;

const CHECKOUT: &str = r#"
work: checkout
speaks: en
style: chatty
lang: ts
nouns: cart coupon address shipping basket price stock banner consent drawer
dirs: src/checkout src/components src/store e2e public/locales
services: storefront cart-api pricing-bff image-cdn
kinds: code code test build diff json page grep ls git log
system: You are a frontend engineer agent working in a TypeScript repository.
U hey! so the checkout page is slow and marketing wants the new design in as well. two things up front, ⟦C it has to work without JavaScript for the address step⟧ (legal, don't ask) and I'd love it if ‹we ⟦C don't add another state library⟧, there are three already lol¦⟦C no new state library⟧ comes in, three is enough lol›
T build ~ Measuring the bundle first. ⇒ dist/checkout.«bh=%%%%%%».js  ⟦I 1.«bs=10..89» MB⟧ │ gzip: 402 kB
A The checkout chunk is 1.«bs» MB, and a third of it is the date picker. ‹I would ⟦D replace the date picker with native inputs⟧.¦First step: ⟦D native date inputs instead of the picker⟧.›
+U oh yes please kill it. design file is ⟦I figma «fg=@@##@#»⟧ btw, frame "checkout v3"
A Looking at the design: ‹for animations ⟦D-1 I'm going with framer-motion⟧, it's small enough when tree-shaken.¦the drawer needs motion, ⟦D-1 framer-motion will do the animations⟧.›
T code@src/checkout/AddressStep.tsx ⇒ // server action posts to /checkout/address when scripts are off\n
A The step without scripts goes through ⟦P src/checkout/«sa=addressAction,addressFallback,noscriptPost».server.ts⟧, so whatever we do in the component has to stay in step with that file.
T test ⇒  ❯ src/checkout/coupon.test.ts > stacked coupons\n   ⟦E expected 2 coupons, received 1⟧
A A real bug, not a flaky test: applying a second coupon replaces the first. It's the reducer, it spreads the wrong object.
+U huh. is that a bug though? wait let me ask. … ok asked «pm=Lena,Jorge,Aiko»: ‹⟦C two coupons may be combined, never three⟧¦⟦C coupons stack up to two⟧, not more›
U ‹oh and browsers: analytics says we still have folks on old iPads, so ⟦C-2 support Safari 13⟧ please¦so about browsers, ⟦C-2 Safari 13 needs to work⟧, old iPads everywhere apparently›
T json ⇒   {"experiment": "⟦I exp_«ex=####»_checkout⟧", "variants": ["control", "v3"], "split": [90, 10]},
A The experiment exp_«ex»_checkout already exists with 10 % on v3. I'll hang the new page on it rather than creating another flag.
U yesss good. ‹the api team says ⟦I-3 pricing-bff is on port «po=41##»⟧ locally, you'll need it for prices¦for local prices: ⟦I-3 pricing-bff listens on «po=41##»⟧›
T log ⇒ ERROR [pricing-bff] ⟦E PRICE_LOCK_EXPIRED⟧ cart=«cid=%%%%%» lock held 301s
A Carts left open longer than five minutes get PRICE_LOCK_EXPIRED. ‹Instead of an error page ⟦D we re-quote silently and show a notice⟧.¦My suggestion is now in the code: ⟦D silent re-quote plus a notice⟧.›
+U love it
?U ‹also!! ⟦C prices always come from the server⟧, never compute totals in the browser, we got burned¦never ever compute totals client side. ⟦C totals come from the server⟧. burned once already›
A framer-motion pulls in 34 kB after all. ‹I dropped it: ⟦D=1 plain CSS transitions do the drawer⟧.¦Out again. ⟦D=1 The drawer animates with CSS transitions⟧ and nobody will see a difference.›
T trace ⇒ ⟦E Hydration failed: server rendered "£", client "€"⟧\n    at PriceTag (src/components/PriceTag.tsx:31)
A The hydration mismatch is from PriceTag guessing the currency by browser language. It now reads the cart's currency. ‹Fix in ⟦P src/components/«pt=PriceTag,Money,Amount».tsx⟧.¦Changed file: ⟦P src/components/«pt=PriceTag,Money,Amount».tsx⟧.›
U quick one, ports moved because of docker desktop drama. ‹⟦I=3 it's «pn=87##» for the bff now⟧¦⟦I=3 bff answers on «pn=87##» these days⟧›
?A Lighthouse on a throttled Moto G: LCP went from 6.2 s to ⟦I «lc=2.#» s LCP⟧, mostly by not loading the picker.
U niiice. translations: ‹⟦C German strings must come from the agency⟧, don't machine translate them again 😬¦please ⟦C don't machine-translate the German⟧ again, agency does that 😬›
T grep ⇒ public/locales/de/checkout.json:14:  "cta": "⟦I TODO_AGENCY_«ta=###»⟧",
A Missing strings are marked TODO_AGENCY_«ta» in the German file; the agency can search for that.
U ‹soooo good news, we looked at the ipad numbers again and it's 0.1%. ⟦C=2 oldest Safari is 15 now⟧¦turns out nobody's on those ipads. ⟦C=2 Safari 15 and up⟧ is fine, go wild with css›
A Then I use container queries for the summary column. Also, ‹⟦D images are served as AVIF with JPEG fallback⟧ by the CDN.¦the CDN can do it, so ⟦D AVIF first, JPEG as fallback⟧.›
?1U launch day: ‹⟦C-4 we go live on Monday the «g1=4..9»th⟧, marketing booked ads¦⟦C-4 Monday the «g1=4..9»th is launch⟧, ads are booked›
T test ⇒  ❯ e2e/guest.spec.ts > guest checkout\n   ⟦E TimeoutError: locator('#consent-v2')⟧ exceeded 30000ms
A Guest checkout hangs in e2e as the consent banner id changed to consent-v2 only on staging. I asked for the same id in both; e2e lives in ⟦P e2e/«eg=guest,anonymous,walkin».spec.ts⟧.
?1U argh ads slipped. ‹⟦C=4 launch moves to Thursday the «g2=14..19»th⟧¦⟦C=4 new launch date: Thursday the «g2=14..19»th⟧›
U can you keep the old page around? ‹⟦D old checkout stays behind /checkout-classic⟧ for a month¦⟦D keep the old one at /checkout-classic⟧ for like a month›
A Done. For support I wrote what changed into ⟦P docs/checkout-v3-«sd=support,helpdesk,faq».md⟧.
U you're the best. the sentry project is ⟦I storefront-«sp=##»⟧ if you need to look at errors after the launch
"#;

const PIPELINE: &str = r#"
work: pipeline
speaks: en
style: terse
lang: py
nouns: order event partition churn feature snapshot backfill segment visit lineage
dirs: dags models/marts models/staging plugins tests/data
services: airflow-scheduler dbt-runner events-ingest warehouse
kinds: sql csv code log json test yaml sql grep page diff
system: You are a data engineering agent with access to Airflow, dbt and the warehouse.
U churn mart is wrong since october. find out why. ⟦C warehouse budget is 200 credits a day⟧, stay below
T sql ⇒ -- rows per day in ⟦I fct_orders_«fo=v#»⟧ drop from 91k to 40k on 2024-10-07
A Volume halves on October 7 in fct_orders_«fo». Upstream counts are fine, so it is our model.
T code@models/marts/churn.sql ⇒ -- inner join on visits since «jd=oct,autumn» refactoring\n
A The join to visits became an inner join in the refactoring. ‹Guests without visits vanish. The file is ⟦P models/marts/«cm=churn_daily,churn_base,fct_churn».sql⟧.¦See ⟦P models/marts/«cm=churn_daily,churn_base,fct_churn».sql⟧: customers without a visit are lost there.›
U ok left join. ‹churn means ⟦C-1 no order in «c1=60,75» days⟧¦definition: ⟦C-1 churned = «c1=60,75» days without order⟧›
T log ⇒ ERROR [dbt-runner] ⟦E Database Error 100183: spill limit exceeded⟧ model=churn
A Full rebuild spills (100183). ‹⟦D rebuild month by month, newest first⟧, that stays in memory.¦I'll avoid it: ⟦D month-wise rebuild starting with the newest⟧.›
U backfill from? ‹⟦C backfill starts at 2023-0«bm=2..8»-01⟧, older is junk¦ignore old junk: ⟦C nothing before 2023-0«bm=2..8»-01⟧›
?U ‹⟦C no personal data in dev schemas⟧. hash emails¦hash emails, ⟦C dev schemas stay free of personal data⟧›
A For orchestration, ‹⟦D-2 I schedule the backfill as a DAG in Airflow⟧ with one task per month.¦⟦D-2 the backfill becomes an Airflow DAG⟧, a task per month.›
T yaml@dags/config.yaml ⇒ # pool shared with finance\npool: ⟦I heavy_«hp=##»⟧
+U that pool is finance's at month end. ⟦C stay out of that pool on the last two days of a month⟧
T sql ⇒ -- duplicates by event_id: ⟦I 3«du=#» thousand duplicate⟧ rows (source = ios 7.2)
A About 3«du» thousand duplicate events, all by iOS 7.2, which sends twice after a reconnect. ‹⟦D dedupe on event_id and device_id⟧, since event_id alone repeats.¦⟦D dedup key is event_id plus device_id⟧.›
?U fyi, from the bi people\n⟪csv⟫
U mobile knows, ⟦I MOB-«mb=####»⟧
A Airflow would need a new connection and two approvals. ‹Simpler: ⟦D=2 a dbt macro run from the shell does the backfill⟧.¦Changed my mind: ⟦D=2 backfill runs as a dbt macro by hand⟧.›
T trace ⇒ ⟦E KeyError: 'segment_code_v2'⟧ in plugins/segments.py
A segments.py expects segment_code_v2, which the CRM export renamed last week. Mapping added in ⟦P plugins/«sg=segments_map,crm_names,segment_alias».py⟧.
U ‹product changed their mind. ⟦C=1 churn is 90 days⟧¦new definition by product: ⟦C=1 90 days without an order⟧›
T test ⇒ FAILED tests/data/test_marts.py::⟦E test_churn_rate_bounds⟧ - 0.31 not in [0.05, 0.25]
A With the new window the rate is 0.31 for October only, because of the duplicates. After dedup: ‹⟦I-3 churn rate 0.1«r1=1..5»⟧.¦measured ⟦I-3 0.1«r1=1..5» churn in October⟧.›
U who gets the numbers? answer: ‹⟦C numbers go to «cf=Helena,Sven,Amara» first⟧, then the rest¦⟦C show «cf=Helena,Sven,Amara» before anyone else⟧›
T csv ⇒ # export bucket: ⟦P s3://mart-exports/churn/«eb=%%%%»/⟧
?A Export location for BI confirmed; ‹⟦D exports are Parquet with zstd⟧¦⟦D Parquet, zstd-compressed⟧›, their loader can't read CSV with quotes.
A Timezones: the October 27 change shifted an hour of orders into the wrong day. ‹⟦D all day boundaries in UTC⟧ from here.¦I settled on ⟦D UTC day boundaries⟧.›
T json ⇒   {"run": "⟦I dbt_«dr=%%%%%%»⟧", "state": "error", "model": "churn_features"},
+A Run dbt_«dr» died on a lock held by a BI extract. ‹Retry is safe after 06:30, ⟦C no runs between 05:00 and 06:30⟧.¦The extract owns that time, so ⟦C keep 05:00 to 06:30 free of runs⟧.›
A Recomputed on UTC days: ‹⟦I=3 the rate is 0.0«r2=71..94»⟧, replaces what I told you.¦the October figure I gave is off. ⟦I=3 Correct is 0.0«r2=71..94»⟧.›
?1U freshness sla ‹⟦C-4 mart ready by 07:00⟧¦⟦C-4 07:00 at the latest for the mart⟧›
T log ⇒ WARN  [events-ingest] ⟦E schema registry: id 5«sr=##» incompatible⟧ topic=visits
A Ingest drops visits with schema 5«sr». The producer must go back one version; ingest config is ⟦P /etc/events-ingest/«ei=topics,sources,streams».toml⟧.
?1U ‹bi starts later now. ⟦C=4 08:15 is enough⟧¦⟦C=4 sla is 08:15⟧ since bi moved›
U ‹⟦D keep the broken mart as churn_old⟧ until december¦old mart: ⟦D rename to churn_old⟧, drop in december›
A Freshness check and the rate bounds are in ⟦P tests/data/«fb=bounds,guards,sanity».yml⟧.
"#;

const FIRMWARE: &str = r#"
work: firmware
speaks: en
style: chatty
lang: rs
nouns: sensor frame packet antenna battery watchdog sector beacon timer radio
dirs: firmware/src firmware/src/drivers hal/src tools/flash tests/hil
services: hil-runner flash-station telemetry-gw
kinds: code code log build test trace ls page diff grep
system: You are an embedded Rust agent. You can build, flash boards on the bench and read serial logs.
U okay so the greenhouse sensors hang every few days in the field and we have no idea why. bench board is ⟦I GH-«bd=@##»⟧ on the flash station. big rule: ⟦C the bootloader must not be reflashed⟧, we can't recover those units remotely
T log ⇒ ERROR [hil-runner] board reset, ⟦E reason=IWDG stage=«st=2,3»⟧ uptime=61h
A The watchdog fires in a late stage after 61 h. So something blocks for longer than ‹⟦I-1 8 s watchdog window⟧.¦what I read from the source as ⟦I-1 an 8 s watchdog window⟧.›
T code@firmware/src/drivers/radio.rs ⇒ // busy-waits until the tx flag clears\n
A Suspicious: ⟦P firmware/src/drivers/«rd=radio_tx,lora_link,sx_modem».rs⟧ waits for a flag with no limit.
+U ohh that driver. «an=Piotr,Selin,Marcus» wrote it in a weekend. ok so memory is super tight, ‹⟦C no heap allocation anywhere⟧¦please ⟦C never allocate on the heap⟧› and I mean it
A ‹Plan: ⟦D-2 rewrite the radio driver with embassy async⟧, so that waiting can't block.¦I propose ⟦D-2 an embassy-based async radio driver⟧.›
T build ⇒ ⟦E rust-lld: section '.text' will not fit in region 'FLASH': overflowed by «ov=2###» bytes⟧
A The async version overflows flash by «ov» bytes. Even with opt-level z it stays above.
+U hah, figures. how much do we have again? 128k minus bootloader → ‹⟦I application flash is 112 KiB⟧¦⟦I 112 KiB for the application⟧›
A Then ‹⟦D=2 the driver stays blocking but gets a 40 ms deadline⟧ and returns an error the caller handles.¦no async. ⟦D=2 A 40 ms deadline in the blocking driver⟧ solves the same problem.›
?U ‹toolchain is pinned btw, ⟦C stay on Rust 1.7«rv=4..9»⟧ because of certification¦⟦C Rust 1.7«rv=4..9» is pinned⟧ for certification, can't bump›
T trace ⇒ panicked at hal/src/spi.rs:«sl=1##»: ⟦E SpiError::Overrun⟧
A The overrun happens if the temperature sensor is read during tx. ‹⟦D radio and sensor share one bus lock⟧ now.¦I gave both ⟦D a common bus lock⟧.›
U ‹oh, wait, I told you wrong stuff about power. ⟦C-3 average current below «c1=60..90» µA⟧ is the target¦target for power: ⟦C-3 less than «c1=60..90» µA on average⟧›
T test ⇒ test hil::tests::⟦E sleep_current_after_tx⟧ ... FAILED (measured 212 µA)
A Sleep current test fails, 212 µA, since the radio's regulator stays on. ‹It hangs on ⟦I pin PB«pb=3..9»⟧, which has to be driven low¦Driving ⟦I pin PB«pb=3..9»⟧ low turns it off›.
U ‹the datasheet folks say ⟦C radio must be off at least 3 ms before sleep⟧¦note from the vendor: ⟦C wait 3 ms after radio off⟧ before sleeping›
A I was mistaken about the watchdog: the option bytes override the source. ‹⟦I=1 The window is really 2.«ww=1..8» s⟧.¦Measured on the board, ⟦I=1 the dog bites after 2.«ww=1..8» s⟧.›
T ls ⇒ -rw-r--r-- 1 ci ci 114688 Nov 3 10:11:02 ⟦P release/gh-«rl=1.#.#»-signed.bin⟧
A The signed image for the field is there, and its key id is ⟦I key-«ky=%%%%»⟧. The old key is refused by the bootloader.
U cool cool. ‹so for rollout: ⟦C ten units in the Almería greenhouse first⟧¦rollout order! ⟦C Almería gets ten units first⟧›, then everyone
?1U we send packets every ‹⟦C-4 reporting interval 10 minutes⟧, that's what customers see¦… hm, ⟦C-4 a report each 10 minutes⟧, customers know that›
T log ⇒ WARN  [telemetry-gw] dropping frame, ⟦E CRC mismatch 0x«cr=%%%%»⟧ from unit 0417
A CRC mismatches come only from units with the old antenna firmware; ‹⟦D gateway accepts both CRC polynomials until spring⟧.¦for now ⟦D both CRC polynomials are accepted⟧ by the gateway.›
?A The HIL scenario for the hang, with 61 h compressed to 4 minutes, is in ⟦P tests/hil/«hl=longrun,hang61,soak».rs⟧.
?1U customers complained about battery, ‹⟦C=4 15 minutes between reports⟧ is agreed¦so ⟦C=4 it's every 15 minutes now⟧, agreed with them›
U so I asked hardware again and the battery is the smaller one!! ‹⟦C=3 we need to get under «c2=31..48» µA⟧¦which means ⟦C=3 «c2=31..48» µA is the limit⟧, sorry›
A Then the LED has to go as well. ‹⟦D status LED is disabled in release builds⟧.¦Done: ⟦D release builds have no status LED⟧.›
T json ⇒   {"campaign": "⟦I ota-«oc=%%%%»⟧", "targets": 10, "state": "armed"},
A OTA campaign ota-«oc» is armed for ten units and waits. Rollback image is ⟦P release/«rbk=golden,fallback,lastgood».bin⟧.
U ‹if more than one unit drops off, ⟦D we stop the campaign at two lost units⟧, no discussion¦⟦D two lost units and we stop⟧. sleep well›
U one more, serial console on the bench is ⟦I /dev/ttyACM«tt=2..9»⟧ and 921600 baud
"#;

const NETWORK: &str = r#"
work: network
speaks: en
style: polite
lang: tf
nouns: subnet gateway peering route endpoint bastion zone listener firewall resolver
dirs: envs/prod envs/stage modules/vpc modules/dns policies
services: transit-hub vpn-edge dns-resolver flow-collector
kinds: code yaml json log table diff page build code grep
system: You are an infrastructure agent. You can plan with Terraform and read cloud APIs; applying needs consent.
U Hello. We are moving two accounts behind a transit gateway. Please note that ⟦C every apply needs my written OK⟧. The first account is ⟦I «a1=4###########»⟧.
T code@envs/prod/main.tf ⇒ # cidr is shared with the paris office vpn\n
A I see the production VPC uses ‹a range that the Paris office uses as well: ⟦I 10.«ci=40..90».0.0/16 overlaps with Paris⟧.¦the same block as Paris; ⟦I the overlap is 10.«ci=40..90».0.0/16⟧.›
+U Oh dear. We can't renumber Paris. ‹⟦C The Paris range cannot change⟧, they have machines with fixed addresses.¦Whatever we do, ⟦C Paris keeps its addresses⟧.›
A ‹Then ⟦D-1 I suggest private NAT between the two⟧, which needs no renumbering.¦One way: ⟦D-1 put a private NAT in between⟧.›
T build ~ Planning. ⇒ ⟦E Error: InvalidTransitGatewayID.NotFound⟧: tgw-«tg0=%%%%%%»
A The plan fails since the gateway in the variables was deleted. ‹The real one is ⟦I tgw-0«tg=%%%%%%%»⟧.¦I found the current gateway, ⟦I tgw-0«tg=%%%%%%%»⟧.› I corrected ⟦P envs/prod/«tv=transit,hub,core».auto.tfvars⟧.
U Thank you. ‹The maintenance window is ⟦C-2 Saturday from 22:00⟧.¦We may work in the window, which is ⟦C-2 on Saturday from 22:00⟧.› Please plan with two hours.
T json ⇒   {"AttachmentId": "⟦I tgw-attach-«at=%%%%%»⟧", "State": "pendingAcceptance", "ResourceOwnerId": "«a1»"},
A tgw-attach-«at» waits for acceptance by the other account. Who can do this?
+U That would be ‹⟦C-3 Fiona accepts attachments⟧. I will forward it.¦⟦C-3 Fiona, she handles the attachments⟧.›
?U May I also ask that ‹⟦C no security group may be open to 0.0.0.0/0⟧, even for a test.¦⟦C nothing is opened to the whole internet⟧, not even briefly.›
T log ⇒ ERROR [vpn-edge] ⟦E IKE_AUTH failed: TS_UNACCEPTABLE⟧ peer=«pe=203.0.113.##»
A The tunnel to the warehouse fails with TS_UNACCEPTABLE because their side still proposes the old networks. ‹⟦D both traffic selectors are replaced by 0.0.0.0/0 on a route-based tunnel⟧.¦I would ⟦D change the warehouse tunnel to route-based⟧.›
A After reading the NAT limits I withdraw that idea; ‹the number of connections is too high. ⟦D=1 We give production a second CIDR, 100.64.«cg=10..60».0/20⟧.¦too many connections. ⟦D=1 Secondary CIDR 100.64.«cg=10..60».0/20 for production⟧ it is.›
U That sounds sensible. The security team has one more wish: ‹⟦C flow logs are kept for 400 days⟧.¦⟦C 400 days of flow logs⟧, for the auditors.›
T code@modules/dns/resolver.tf ⇒ # outbound rules are ordered\n
A DNS rules are in ⟦P modules/dns/«dn=forwarding,outbound,split_horizon».tf⟧. The order matters: the first match wins, so ‹⟦D corp.example stays the first forwarding rule⟧.¦I keep ⟦D corp.example as rule number one⟧.›
U Fiona has left the team last week, I am sorry for the confusion. ‹⟦C=3 Please contact Hideo for acceptance⟧.¦⟦C=3 Hideo took over acceptance⟧.›
T table ⇒ default     dns-resolver-«dp=%%%%»          0/1    ⟦E ImagePullBackOff⟧    0         5m
A The resolver can't pull because the registry endpoint is missing in the new subnets. I added ⟦I vpce-0«ve=%%%%%%»⟧ for it.
?1U Costs: ‹⟦C-4 at most 900 EUR a month for the whole design⟧.¦please keep ⟦C-4 the monthly cost below 900 EUR⟧.›
T diff ⇒ -  ⟦E prevent_destroy = false⟧\n+  prevent_destroy = true # production route tables
A In the last commit prevent_destroy had been switched off for the route tables. I restored it and wrote a policy: ⟦P policies/«po=routes,destroy,guard».rego⟧.
U About the window: ‹the shop has a campaign that night, therefore ⟦C=2 we work Sunday from 05:00⟧.¦there is a campaign. ⟦C=2 It is Sunday at 05:00 now⟧, still two hours.›
A Understood. ‹⟦D order of the cut: stage, then warehouse, then production⟧.¦For that morning: ⟦D stage first, warehouse second, production last⟧.›
T log ⇒ WARN  [flow-collector] ⟦E REJECT on 8«fj=###»⟧ from 100.64.0.0/10 to payments
A Rejects on 8«fj» come from the payments firewall, which doesn't know the new range. Their change is requested as ⟦I «ch=CHG-######»⟧.
?1U The budget was raised, by the way. ‹⟦C=4 1400 EUR per month are approved⟧.¦⟦C=4 we may spend 1400 EUR monthly⟧.›
?A MTU: the tunnel fragments above 1400. ‹⟦D MSS is clamped to 13«ms=20..59»⟧ on vpn-edge.¦I set ⟦D an MSS clamp of 13«ms=20..59»⟧.›
T json ⇒   {"HealthCheck": "⟦I hc-«hc=%%%%%»⟧", "Status": "Unhealthy", "Note": "probes come from old range"},
U Before production, ‹⟦C the warehouse must confirm scanning works⟧.¦⟦C wait for the warehouse to confirm its scanners⟧.›
A Will do. The way back is described in ⟦P docs/transit-«tb=rollback,backout,retreat».md⟧: ‹⟦D detach and restore static routes⟧, about six minutes.¦in short ⟦D restore the static routes and detach⟧.›
U Thank you very much. My OK for stage: plan file ⟦P plans/stage-«pl=%%%%».tfplan⟧, nothing else.
"#;
