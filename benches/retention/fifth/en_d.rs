//! Owns the English scripts about a parser that got slow, the mail of a charity, and the saves of a game.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "en-slow-parser",
        lang: Lang::En,
        system: "You are a Rust developer's agent.",
        script: PARSER,
    },
    Scenario {
        name: "en-charity-mail",
        lang: Lang::En,
        system: "You help volunteers with their systems. Explain in plain words.",
        script: CHARITY,
    },
    Scenario {
        name: "en-game-saves",
        lang: Lang::En,
        system: "You work in a game studio's code base.",
        script: SAVES,
    },
];

const PARSER: &str = r#"
= gh issue 18##¦issue 9##¦discussion 44#
= commit ?????c?b1¦b?????4a2¦7d?????f0
= mb 410 MB/s¦655 MB/s¦290 MB/s
= f crates/lexer/src/scan.rs¦src/reader/chunk.rs¦core/src/tokens/quote.rs
= msrv 1.70¦1.74¦1.66
= corp corpus/eu_gov_tenders.csv¦benches/data/nyc_taxi.csv¦fixtures/huge/logs_utf16.csv
= simd memchr's three-needle search¦a 256-entry lookup table¦a SWAR loop on u64
= rel 0.1#.0¦2.#.0¦1.1#.0
U Users say the parser got slow, [[I:%gh%]] on GitHub. «Bisect it, would you?¦Can you find out since when?» Ground rule: [[C:no unsafe outside of the simd module]].
A Sure. A benchmark first, then the bisection.
T bash ¦ cargo bench --bench throughput ¦ cargo
T bash ¦ git bisect run ./bisect.sh ¦ gitlog ¦ first bad commit: [[I:%commit%]] "handle lone carriage returns"
A Found: the commit about lone carriage returns. It scans every field twice. The code is in [[P:%f%]].
T read ¦ %f% ¦ rust
U Just [[~D:revert that commit]], I'd say.
T bash ¦ cargo test ¦ cargo ¦ test mac_line_ends ... FAILED: [[E:expected 3 records, found 1]]
A If I do so, files from old Macs break again, see the test.
U Hm, people need this. OK, keep the feature, but [[D:find the byte with %simd%]].
A That's one pass. Target?
U We advertised [[I:%mb%]] on the taxi file. [[~C:anything above 80 percent of it will do]].
T bash ¦ cargo bench --bench throughput -- new ¦ csv
A We are at 84 percent.
U Thinking about it: [[C:must be at least as fast as 0.9]], the blog post says so.
A Fine, then there's more to do. Profile:
T bash ¦ perf report --stdio ¦ trace ¦     31.4%  core::str::from_utf8 called for each field
A A third is UTF-8 validation of each field. I [[D:validate once per buffer instead of per field]].
T read ¦ src/reader/buffer.rs ¦ rust
T bash ¦ cargo +nightly miri test ¦ cargo ¦ error: Undefined Behavior: [[E:out-of-bounds pointer use in tail()]]
A Miri finds a real bug in the tail handling, it was there before.
U Wow. Fix in its own commit, and [[C:credit @lotte-h in the changelog]], she suspected it.
T read ¦ [[P:src/simd/tail.rs]] ¦ rust
A Fixed. MSRV: I used let-else, is that fine?
U MSRV is [[~I:1.63 as far as I know]]... let me check.
T bash ¦ grep -rn rust-version . ¦ grep ¦ Cargo.toml:9:rust-version = "%msrv%"
U It was raised: [[I:MSRV is %msrv%]]. So yes.
T bash ¦ cargo fuzz run records -- -max_total_time=600 ¦ log ¦ crash: [[E:attempt to subtract with overflow in quote_len]]
A Ten minutes of fuzzing and a crash: a quote right at the end of a chunk. The input is saved as [[P:fuzz/artifacts/records/crash-%commit%]].
U Add it to the regression corpus.
T bash ¦ cargo test --all-features ¦ cargo
A Added. Big file for the final numbers?
U [[P:%corp%]], but [[C:don't publish that file]], licence is unclear.
T bash ¦ ./bench.sh %corp% ¦ csv
A It is 1.12 times as fast as 0.9. Memory went up, though: buffers of [[~I:1 MiB per reader]].
U Too much, some open thousands of readers. [[I:64 KiB by default]], configurable.
T bash ¦ ./bench.sh %corp% --buffer 64k ¦ csv
A No loss. The builder method: [[D:name it buffer_capacity, like BufReader]].
U 👍 [[C:no breaking change before 1.0 of serde-glue]].
T bash ¦ cargo semver-checks ¦ cargo ¦ --- failure [[E:enum_variant_added: ErrorKind::LoneQuote]]
A Semver-checks dislikes my new error variant. I [[D:fold it into ErrorKind::Syntax]] with a message.
U Good.
T read ¦ [[P:docs/performance.md]] ¦ doc
U Release as [[~I:a patch release]]?
A The default buffer changes behaviour a little.
T bash ¦ cargo publish --dry-run ¦ cargo
U Then it's a minor: [[I:release %rel%]], and [[D:yank nothing]].
T read ¦ [[P:CHANGELOG.md]] ¦ doc
A The changelog is written, with thanks.
U And answer the reporter kindly, he sent great data.
T bash ¦ cargo doc --no-deps ¦ cargo
A Drafted.
"#;

const CHARITY: &str = r#"
= list donors-2025¦friends_all¦supporters-uk
= dom mail.hopeharbour.example¦post.riverkin.example¦news.openlarder.example
= sel sel-20##¦k#-dkim¦mx20##a
= camp C-77##¦CMP/2##¦camp_????
= n 12,4##¦8,9##¦23,1##
= ip 203.0.113.1##¦198.51.100.2#¦203.0.113.#7
= tool scripts/import_contacts.py¦tools/merge_people.py¦crm/sync_lists.py
= treas Agnes¦Rupert¦Mrs. Oyelaran
U Good afternoon! I run the newsletter of our charity and since June half of it lands in spam. We're volunteers, «so please no jargon.¦so go slowly.» The sender is [[I:%dom%]]. Whatever happens, [[C:never mail the people who unsubscribed]].
A Good afternoon! I understand. I look at the settings of the domain first; nothing gets sent.
T bash ¦ dig +short TXT %dom% _dmarc.%dom% ¦ log ¦ dkim check for %dom%: [[E:permerror: no key for selector %sel%]]
A The signature of your mails can't be checked, since the key is missing from the domain. Large providers began to insist on it in June.
U Ah! Our host is [[~I:Bluefin Hosting]], they'd have to add it.
T read ¦ [[P:dns/zone-export.txt]] ¦ doc
A The zone's name servers belong to someone else, I think.
U Oh yes, my nephew moved it: [[I:DNS is at Gandalf Registry]] now.
A Good. I prepare the record, [[I:selector %sel%]], and you send it to him.
T bash ¦ ./tools/bounces --since 2025-06-01 ¦ csv ¦ 7,2025-06-14,,550,blocked,"[[E:550 5.7.26 unauthenticated sender]]"
A The bounces tell the same story.
U How many people do we have? I believe [[~I:about 15 thousand]].
T read ¦ [[P:%tool%]] ¦ py
T sql ¦ select status, count(*) from contacts group by 1 ¦ table ¦ 1 | active | [[I:%n% active]] | NULL | without doubles
A Without the doubles it's fewer: see the first row.
U Fewer than I told the board, oops. [[C:%treas% must see the number before the board does]].
A I won't put it into any report yet.
T bash ¦ python %tool% --dry-run ¦ log ¦ [[E:two people share one address: row 4417]]
A Couples often share an address. I suggest to [[~D:merge them into one contact]].
U No, no, they give separately! For the tax letters, [[D:keep both, mail the address once]].
A Understood, that's kinder too.
T bash ¦ pytest tests -q ¦ pytest
U Can we use a sending service? [[C:nothing that costs more than 30 pounds a month]].
T web ¦ https://compare.example.org/newsletter-tools ¦ page
A Three fit. With your numbers, I would [[D:take Postwren, the nonprofit plan]].
U Is the data in Europe?
T web ¦ https://postwren.example/privacy ¦ page ¦ <p>Customer data is stored in Dublin; [[C:a signed DPA is required before import]].</p>
A Yes, Dublin, but they want a signed agreement before we import.
U I'll sign. Our list there shall be [[I:%list%]].
T bash ¦ ./tools/postwren lists ¦ json
A Created, empty. For the first weeks, [[~D:send to everybody on Friday]]?
U You tell me!
T web ¦ https://postwren.example/help/warm-up ¦ page
A After reading their advice, no: [[D:warm up with 500 a day]], the most loyal readers first.
U Splendid.
T read ¦ [[P:templates/newsletter/base.html]] ¦ ts
A The template has pictures without text for the blind; I fix this. Logo: which file?
U [[P:assets/logo-2024-round.svg]], never the square one.
T bash ¦ ./tools/render --all-clients ¦ log ¦ outlook: [[E:message clipped at 102 kB]]
A It's too long for some readers. I [[D:move the event list to the web site]].
U Fine. Photos of children: [[C:faces of children only with form K]].
A I checked the six pictures; two have no such form, so they are out.
T bash ¦ ls -l assets/photos ¦ ls
U The autumn appeal is [[I:%camp%]] in the books.
T read ¦ [[P:docs/appeal-autumn.md]] ¦ doc
A Links carry that code now. The first date was [[~D:Monday 6 October]], wasn't it?
U It was, but the bishop writes the foreword and is late. [[D:the appeal goes out on 15 October]].
A Moved.
T bash ¦ ./tools/postwren test --to me ¦ log ¦ delivered via [[I:%ip%]] dkim=pass
A The test mail passed all the checks.
U I'm so relieved!!
T bash ¦ python %tool% --report ¦ csv
A I keep an eye on the first 500.
"#;

const SAVES: &str = r"
= bug BUG-6###¦TT-####¦QA-11##
= plat Switch¦Steam Deck¦XboxSX
= magic 0x5A???? header¦SAVB##¦'TMR#' tag
= slot profile_0#/slot_##.sav¦SaveData/autosave_#.bin¦user/%plat%/quest_##.dat
= f engine/io/save_writer.rs¦src/persist/stream.rs¦game/save/atomic.rs
= bld build 20###¦CL 88####¦rc-5#
= cap 3 MB¦512 KB¦8 MB
= cert TRC R4###¦lotcheck 07##¦XR-0##
U yo. save corruption on [[I:%plat%]], [[I:%bug%]]. players lose 40h runs, reddit is melting. [[C:old saves have to load forever]], whatever you do
A On it. First the writer.
T read ¦ [[P:%f%]] ¦ rust
T bash ¦ ./tools/savecheck samples/%slot% ¦ log ¦ [[E:crc mismatch in block 12 (inventory)]]
A The sample [[P:samples/%slot%]] is cut off in the inventory block. Power loss or suspend during the write, I suspect.
U suspend, 100%. qa can repro with the sleep button
A Then the fix: [[~D:write on a background thread]] and hope to finish... no, honestly, let me think.
T grep ¦ fn suspend ¦ grep
U lol. [[D:write to a temp file, fsync, then rename]]
A Yes. And one older copy next to it.
T bash ¦ cargo test -p persist ¦ cargo ¦ test suspend_mid_write ... FAILED: [[E:slot has zero bytes]]
U storage on console: [[~I:quota is 16 MB]]
T web ¦ https://devportal.example/storage ¦ page ¦ <p>Titles in this category: [[I:%cap% per user]], journaling included.</p>
A The portal gives a smaller quota than you said, so two full copies may not fit.
U damn you're right, portal wins. then [[D:compress with zstd level 3]]
A Saves shrink to a fifth. Fits twice.
T bash ¦ ./tools/sizes ¦ csv
U don't forget [[C:no allocation during the save on the main thread]], we drop frames otherwise
A I preallocate at level load.
T read ¦ engine/mem/arena.rs ¦ rust
T bash ¦ ./tools/frametest --save-spam ¦ metrics
A Longest frame 15.9 ms. The format: new files begin with [[I:%magic%]], so old ones can be told apart.
U version field? [[~I:u8 is enough]]
A We are at 211 already.
T bash ¦ git log --oneline -40 -- engine/io ¦ gitlog
U whoa ok. [[I:version is a u16 now]]
T bash ¦ ./tools/migrate-all samples ¦ log ¦ [[E:unknown quest flag 'moth_king_2']] in 14 files
A Some old saves have a flag the game no longer knows.
U cut content. [[D:keep unknown flags and write them back]], modders use those
T read ¦ [[P:game/quests/flags.ron]] ¦ rust
A Done, round trip tested.
U cloud sync: today it's [[~D:newest timestamp wins]]
T bash ¦ ./tools/cloudsim --skew ¦ log ¦ device clock off by 3 days, older progress won
A The simulation shows that a wrong clock destroys progress.
U then [[D:ask the player, show playtime of both]]
A Good. The dialog's text needs translation.
T read ¦ [[P:loc/strings_save.csv]] ¦ csv
U [[C:texts frozen after friday]], loc team leaves for vacation
A I send them today.
T bash ¦ ./build.sh --target console ¦ cargo ¦ error: [[E:undefined symbol: nn_fs_commit]]
A The link fails without the SDK's commit function. It must be called or the rename isn't durable.
U link against the 17.5 sdk, and cert wants it anyway: [[I:%cert%]]
T bash ¦ ./build.sh --target console --sdk 17.5 ¦ cargo
A It links. Telemetry: shall I report failed loads?
U yes but [[C:no player names in telemetry]]
T read ¦ [[P:engine/telemetry/events.rs]] ¦ rust
A Only a hash of the slot.
U patch goes out [[~D:tomorrow as a hotfix]]
A Cert alone takes three days on that platform.
T bash ¦ ./tools/soak --hours 8 ¦ log
U true. [[D:ship it with patch 4 on the 23rd]]
A OK. The candidate is [[I:%bld%]].
T bash ¦ ./tools/upload --dry ¦ log
U 🙏 gg
A gg. I watch the crash counter.
";
