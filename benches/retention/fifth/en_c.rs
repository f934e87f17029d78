//! Owns the English scripts about the rotation of keys, and about moving an office.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "en-key-rotation",
        lang: Lang::En,
        system: "You support a security engineer. Read widely, change little.",
        script: KEYS,
    },
    Scenario {
        name: "en-office-move",
        lang: Lang::En,
        system: "You are an assistant for operations staff, with files and the web.",
        script: OFFICE,
    },
];

const KEYS: &str = r"
= kid kid-??????¦jwk_####_??¦k:????-####
= fnd F-0##¦SEC-1##¦PT-2025-##
= aud urn:portal:##¦api://billing-??¦svc.%kid%
= file crates/authz/src/verify.rs¦src/token/introspect.rs¦lib/session/jwt.rs
= cve CVE-2025-2####¦GHSA-?###-4?##¦RUSTSEC-2025-00##
= skew 90 seconds¦two minutes¦45 seconds
= hsm hsm-0#.vault.lan¦10.66.#.2#¦pkcs11:slot-#
= life 20 minutes¦half an hour¦12 minutes
U Pentest report came in. Finding [[I:%fnd%]]: our tokens are accepted «after the key is revoked.¦long after revocation.» Scope is «tight¦small»: [[C:no change to the login UI]], that team is mid-redesign.
A Thanks. I look at how tokens are verified and where keys are cached.
T read ¦ [[P:%file%]] ¦ rust
T grep ¦ decoding_key ¦ grep
A The key set is fetched once at start and never again. So a revoked key lives as long as the process.
U Embarrassing. The key in question is [[I:%kid%]].
A My first thought: [[~D:refetch the key set on every request]].
T bash ¦ cargo test -p authz ¦ cargo ¦ test verify::revoked_key_is_refused ... FAILED: [[E:expected Unauthorized, got Ok(Claims)]]
U That would melt the identity provider. [[D:cache the keys for ten minutes]], refetch on unknown kid.
A Right, with a lower bound between two refetches, so nobody can force them.
T read ¦ crates/authz/src/keys.rs ¦ rust
U One more thing, [[C:tokens must never be logged]], not even truncated. Someone did this in 2022.
T bash ¦ journalctl -u gateway --since today ¦ log ¦ jwt rejected: [[E:ImmatureSignature, nbf in the future]] from node 4
A Node 4's clock runs ahead, so valid tokens are refused there. What leeway do you allow?
U Currently [[~I:5 minutes of leeway]], I believe.
T bash ¦ chronyc tracking ¦ log
A That is generous: an expired token would be good for that much longer.
U Fair. [[I:leeway is %skew%]] from now on, and fix NTP on that node.
T bash ¦ cargo audit ¦ cargo ¦ warning: [[E:%cve%]] in jwt-simple-ext 0.8
A The audit shows an advisory for one of our crates. Updating it changes the API in two places.
U Update it. But [[C:stay on OpenSSL 3.0 LTS]], FIPS and all that.
A Fine, the new version builds with it. The audience check is missing too: any service's token is good for any other.
T bash ¦ cargo tree -d ¦ cargo
U wow. The audience for us is [[I:%aud%]].
A I [[D:reject tokens with more than one audience]]; nobody needs those.
T read ¦ [[P:config/authz/issuers.toml]] ¦ yaml ¦ # legacy issuer kept for the kiosk app, see [[P:docs/adr/0031-kiosk-issuer.md]]
A There's a legacy issuer for the kiosk app, explained in an ADR. I read this before I remove anything.
T read ¦ docs/adr/0031-kiosk-issuer.md ¦ doc
U Right, kiosks. [[C:kiosk devices cannot be updated before March]].
A Then the legacy issuer stays until then, limited to the kiosk's routes.
T bash ¦ ./tools/hsm list-keys ¦ table
U New signing key: [[~D:RSA 4096 again]].
A Noted. Those are slow to sign; the HSM manages 40 a second.
T bash ¦ ./tools/hsm bench --host '%hsm%' ¦ metrics
U OK you convinced me, [[D:switch signing to ES256]]. The module is [[I:%hsm%]].
A All clients support it, I checked their libraries.
T bash ¦ ./tools/hsm generate --alg es256 ¦ log ¦ [[E:CKR_USER_NOT_LOGGED_IN (0x101)]]
A I have no session on the HSM. It needs two of the key custodians.
U Yes: [[C:two custodians must be present]] for key generation. I'm one, Yusuf is the other.
T bash ¦ ./tools/hsm generate --alg es256 --quorum ¦ log
@02 U Access tokens [[~I:live for 8 hours]] today.
@02 A That's long for tokens which can't be revoked one by one.
@02 T sql ¦ select client, avg(age) from sessions group by 1 ¦ table
@02 U Then [[I:access tokens live %life%]], refresh tokens as before.
@02 A Changed.
@1 U Refresh tokens: [[D:rotate refresh tokens on every use]].
@1 T sql ¦ select client, avg(age) from sessions group by 1 ¦ table
@1 A Done, with detection of reuse.
T read ¦ [[P:crates/authz/tests/revocation.rs]] ¦ rust
T bash ¦ cargo test --workspace ¦ cargo ¦ test gateway::replay ... FAILED: [[E:nonce store is full (65536)]]
A The nonce store fills up in the replay test. I [[D:expire nonces together with their token]] rather than to enlarge it.
U Good call. Roll-out order was [[~D:gateway first, then the workers]].
A The other way round is safer: workers would refuse what the gateway already accepts.
T bash ¦ kubectl rollout history deploy -n auth ¦ pods
U Yes: [[D:workers first, the gateway a day later]].
A I wrote that into [[P:ops/rollouts/es256.md]].
T read ¦ ops/rollouts/es256.md ¦ doc
U And tell the auditors. Their portal reference is [[I:AUD/%ref%]].
= ref 77##/B¦20##/K¦31##/C
T bash ¦ ./tools/report --finding %fnd% ¦ doc
A The report is drafted, without any token in it.
U Thanks. Let's have the retest next week.
A I will prepare the test accounts.
";

const OFFICE: &str = r#"
= addr 14 Tannery Lane¦Kaivokatu ##¦88 Harbour Row
= po PO-66###¦order 9####¦REQ/####
= desks 64 desks¦112 desks¦38 desks
= bud 92,500 euros¦148,000 euros¦61,200 euros
= isp circuit FBR-#####¦line id 20-####¦service ##-^^-###
= mov Halvorsen Removals¦Brightvan¦Osei & Sons
= dir moves/2025¦shared/relocation¦ops/newoffice
= door badge profile B#¦door group 7##¦reader set R-##
U Hello there! I'm Wilhelmina, office manager, not technical at all, so be gentle. We move to [[I:%addr%]] «in autumn¦this autumn» and I have a folder full of files. The one rule from the board: [[C:no working day may be lost]].
A Hello Wilhelmina, gladly. I look through the folder first.
T bash ¦ ls -lR %dir% ¦ ls
T read ¦ [[P:%dir%/lease-summary.md]] ¦ doc ¦ - The landlord requires [[C:no drilling into the north wall]] (listed building).
A The lease has a condition about one wall, since the building is listed. So the screens there need stands.
U Good that you read that! For the budget, I have [[~I:80,000 euros]] in mind.
T bash ¦ cat %dir%/quotes.csv ¦ csv
A The quotes add up to more than this already, even without furniture.
U I asked the CFO. [[I:the cap is %bud%]], including VAT.
A That works with some care.
T read ¦ [[P:%dir%/floorplan-notes.md]] ¦ doc
A The plan has room for [[I:%desks%]] if the kitchen stays where it is. Seating: «do people¦does everybody» get a fixed desk?
U The idea was [[~D:fixed desks for everyone]].
T bash ¦ python tools/occupancy.py --weeks 12 ¦ csv
A In the last twelve weeks, at most 61 % were in at the same time.
U Then [[D:shared desks, except for the finance corner]]. Finance has those locked drawers.
A I draw it that way.
T bash ¦ python tools/layout.py --check ¦ log ¦ layout check: [[E:escape route narrower than 120 cm at pillar 6]]
A The checker says that an escape route is too narrow next to a pillar. I move one row by half a metre.
U Yes please, safety first. Also Piet needs [[C:a height-adjustable desk by the window]], doctor's orders.
A Placed.
T web ¦ https://www.example-removals.com/business ¦ page
U For movers we usually take [[~D:Kessler, as last time]].
T bash ¦ ./tools/mail search kessler ¦ json ¦   {"id": 4, "from": "Kessler", "text": "[[E:we are fully booked until 3 November]]"},
A There is a mail from them: they're booked out until November.
U Oh no. Then [[D:we hire %mov%]]. My cousin was happy with them.
A I «draft¦have drafted» the order; your purchase number?
U [[I:%po%]].
T read ¦ [[P:%dir%/contracts/movers-terms.pdf.txt]] ¦ doc ¦ Liability is limited to 600 EUR per box unless [[C:server racks are insured separately]].
A Their terms say that the racks need an insurance of their own. I add it to the list.
U Thank you. Internet?
T bash ¦ ./tools/isp order-status ¦ log ¦ order on hold: [[E:duct survey missing (code 27)]]
A The fibre order is on hold, as a survey of the ducts is missing. The reference is [[I:%isp%]].
U Who does that?
T web ¦ https://isp.example.net/business/survey ¦ page
A The landlord. Until fibre is there, I suggest [[D:two 5G routers as a stopgap]].
U Agreed. Moving date is [[~D:the weekend of 20 September]].
A With the survey open, that's tight.
T bash ¦ python tools/timeline.py ¦ table
U Right, the landlord says no earlier than October. [[D:we move on 11 and 12 October]].
A Timeline changed, and I wrote to the movers.
T bash ¦ cat %dir%/inventory.csv ¦ csv
@01 U The plants! [[C:the big fig goes by car, not by van]].
@01 A Ha, noted in the inventory, [[P:%dir%/inventory.csv]], with your name next to it.
@01 T bash ¦ grep -n plant %dir%/inventory.csv ¦ csv
@2 U The old furniture: [[D:donate the chairs to the Linden school]].
@2 A Lovely. I marked them in [[P:%dir%/inventory.csv]].
@2 T bash ¦ grep -n chair %dir%/inventory.csv ¦ csv
U Access cards: the vendor wants a name for the profile.
T bash ¦ ./tools/access export ¦ json ¦   {"id": 9, "state": "new", "profile": "[[I:%door%]]", "hours": "06-22"},
A It exists already in their export, with hours from six to ten.
U Cleaning staff come at five, so [[C:cleaners need access from 04:45]].
A I asked for a second profile.
T bash ¦ ./tools/access request --hours 0445 ¦ log ¦ [[E:request refused: approver is on leave]]
U Ah, their approver. [[~I:Mr. Lindqvist]] is the contact.
A I call the desk there.
T bash ¦ cat %dir%/contacts.csv ¦ csv
U He retired, it turns out; [[I:Ms. Abara, on 0%ph%]].
= ph 44 1##2¦61 7##8¦30 2##5
A Noted and reached; it's approved now.
T read ¦ [[P:%dir%/announcement-draft.md]] ¦ doc
U In the mail to all, [[C:don't mention the rent]].
A It's left out. And the old office: [[D:hand over the keys on 31 October]]?
U Yes, exactly that.
T bash ¦ python tools/checklist.py ¦ log
A The checklist has 48 items, 30 done.
U You're a treasure!
A Thank you. I look at it again on Monday.
"#;
