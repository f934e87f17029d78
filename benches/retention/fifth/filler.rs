//! Owns the talk, the edits and the calls of a session that nobody needs to remember.

use super::bulk::Bulk;
use super::words::Lang;

/// Small talk and notes, none of them used twice.
pub(super) struct Filler {
    chats: Vec<&'static str>,
    notes: Vec<&'static str>,
}

impl Filler {
    pub(super) fn new(bulk: &mut Bulk) -> Self {
        let (chats, notes) = match bulk.lang {
            Lang::En => (EN_CHATS, EN_NOTES),
            Lang::Ja => (JA_CHATS, JA_NOTES),
        };
        Self { chats: bulk.rng.shuffled(chats), notes: bulk.rng.shuffled(notes) }
    }

    /// Something a user says by the way, and the answer.
    pub(super) fn chat(&mut self, bulk: &mut Bulk) -> Option<(String, String)> {
        let (question, answer) = self.chats.pop()?.split_once('¦')?;
        Some((bulk.block(question), bulk.block(answer)))
    }

    /// What an assistant says while it works.
    pub(super) fn note(&mut self, bulk: &mut Bulk) -> Option<String> {
        self.notes.pop().map(|note| bulk.block(note))
    }

    /// What an assistant says when it is done with a call.
    pub(super) fn answer(lang: Lang, number: usize) -> String {
        let answers = match lang {
            Lang::En => EN_ANSWERS,
            Lang::Ja => JA_ANSWERS,
        };
        answers.get(number % answers.len()).copied().unwrap_or_default().to_owned()
    }

    /// A call that looks at something: tool, argument, kind of output.
    pub(super) fn call(bulk: &mut Bulk, kind: &str) -> (String, String, String) {
        let (tool, argument) = match kind {
            "rust" => ("read", "src/$1/$2.rs"),
            "py" => ("read", "$1/$v_$2.py"),
            "ts" => ("read", "src/$1/$2.tsx"),
            "go" => ("read", "internal/$1/$2.go"),
            "java" => ("read", "src/main/java/$1/$I.java"),
            "yaml" => ("read", "deploy/$1/$2.yaml"),
            "ddl" => ("read", "db/$1_$2.sql"),
            "cargo" => ("bash", "cargo test -p $1 2>&1 | tail -n $b0"),
            "pytest" => ("bash", "pytest tests/$1 -q"),
            "jest" => ("bash", "npx vitest run src/$1"),
            "npm" => ("bash", "npm run build"),
            "gradle" => ("bash", "./gradlew :$1:test"),
            "table" => ("sql", "select * from $1 order by id desc limit $b"),
            "page" => ("web", "https://docs.example.org/$1/$2"),
            "doc" => ("read", "docs/$1-$2.md"),
            "csv" => ("bash", "head -n $b0 data/$1.csv"),
            "json" => ("bash", "curl -s localhost:8080/$1?limit=$b"),
            "gitlog" => ("bash", "git log --oneline -n $b -- $1"),
            "grep" => ("grep", "$v_$1"),
            "pods" => ("bash", "kubectl get pods,events -n $1"),
            "metrics" => ("bash", "curl -s localhost:9090/metrics | grep $1"),
            "diff" => ("bash", "git diff HEAD~$a -- $1"),
            "ls" => ("bash", "ls -l $1 $2"),
            "plan" => ("bash", "terraform plan -target module.$1"),
            "trace" => ("bash", "./tools/crash show $h"),
            _ => ("bash", "tail -n $b0 log/$1-$2.log"),
        };
        (tool.to_owned(), bulk.block(argument), kind.to_owned())
    }

    /// A file that is written: its path and content.
    pub(super) fn edit(bulk: &mut Bulk, kinds: &[String]) -> (String, String) {
        let code = ["rust", "py", "ts", "go", "java", "ddl", "yaml"];
        let used = kinds.iter().find(|kind| code.contains(&kind.as_str()));
        let kind = used.map_or("doc", String::as_str);
        let path = match kind {
            "rust" => "src/$1/$v_$2.rs",
            "py" => "$1/$2_$v.py",
            "ts" => "src/$1/$v$I.ts",
            "go" => "internal/$1/$v_$2.go",
            "java" => "src/main/java/$1/$I$N.java",
            "ddl" => "db/work/$1_$2.sql",
            "yaml" => "deploy/$1-$2.yaml",
            _ => "notes/$1-$2.md",
        };
        let size = bulk.rng.between(90, 260);
        (bulk.block(path), bulk.output(kind, size, &[]))
    }
}

const EN_CHATS: &[&str] = &[
    "ok¦Going on.",
    "sounds good, carry on¦Will do.",
    "Back from lunch. Anything blocking?¦No, all quiet. The last run is still warm, I will pick it up from there.",
    "lol that log is noisy¦It is. Most of it is the $n heartbeat and can be ignored.",
    "Take your time, I'm in a meeting until the top of the hour.¦Thanks, I will keep notes as I go.",
    "What does `$v_$n` do anyway?¦It walks the $n once and drops the entries that are older than the current $n. Nothing special.",
    "My coffee machine just died, so if I sound grumpy, that's why.¦Condolences. I will keep the messages short.",
    "is that warning about $n bad?¦No, it has been there for months and only concerns the test setup.",
    "thanks, that was quick¦You are welcome. Next one is a bit longer.",
    "Hm, let me read that again... ok, fine.¦Good. Continuing then.",
    "Can you say in one line where we are?¦Halfway: the reading is done, the changes are small, the tests come next.",
    "👍¦Continuing.",
    "The $n stuff is not ours, skip it.¦Skipped.",
    "Sorry, wrong window.¦No problem.",
    "how long will this take roughly?¦A few more runs, I would say a quarter of an hour.",
    "I like how the $n turned out, by the way.¦Thank you, it got shorter too.",
    "did you see the build went yellow for a second?¦Yes, a flaky $n test; it passed on the second run.",
    "Weather's awful here today.¦A good day for reading logs, then.",
    "go ahead¦On it.",
    "Wait, why are there $d of those?¦They are generated: one for each $n and locale. Nothing to do by hand.",
];

const EN_NOTES: &[&str] = &[
    "Let me have a look at the $n side first, since that is where most of the traffic goes.",
    "That looks as expected. Checking the $n next, just to be sure that nothing else reads it.",
    "Nothing unusual so far; the warnings about `$n` are old. I will go through the rest of the file.",
    "Reading the callers now.",
    "The $n is only a thin wrapper, so the interesting part must be further down.",
    "I want to see how the $n behaves when the $n is empty before I change anything.",
    "Good, $b of these pass and the others are skipped on this machine. On to the next one.",
    "A quick look at the history, in case somebody tried this before.",
    "This part is fine. The naming is a bit odd, but that is not for today.",
    "Checking the numbers again with a larger sample.",
    "Just confirming that the change compiles before going on.",
    "The output is long, most of it is noise from the $n; I will only look for what changed.",
    "Let me compare that with what the $n does elsewhere.",
    "I will run it once more to see whether it is stable.",
    "Looking for other places that do the same thing by hand.",
    "The helper `$v_$n` is used in $a places, all of them look alike.",
    "Now the second half. I expect nothing new there, but it is cheap to check.",
    "Listing what is there, so that I do not write something that exists already.",
    "One moment, the $n takes a while to start.",
    "That confirms the order of calls. Next the $n, which reads the same data later.",
    "Small cleanup first, it makes the following diff easier to read.",
    "So far about $b % of the files are done.",
];

const JA_CHATS: &[&str] = &[
    "OK¦では続けます。",
    "了解、そのまま進めて¦はい、続けます。",
    "お昼から戻りました。何か詰まっていますか？¦いえ、順調です。先ほどの続きから再開します。",
    "ログ長いね…¦ほとんどが$jの定期出力なので読み飛ばして大丈夫です。",
    "会議に入るので少し返事が遅れます。¦承知しました。進めておきます。",
    "$jの警告は気にしなくていい？¦以前から出ているもので、今回の作業には関係ありません。",
    "今日は暑いですね。¦本当に。サーバ室がうらやましい季節です。",
    "ありがとう、早いね¦次は少し時間がかかりそうです。",
    "あと何分くらい？¦15分ほどだと思います。",
    "すみません、別の人宛でした。¦お気になさらず。",
    "今どこまで進んだ？¦調査は終わって、修正の半分くらいです。",
    "なるほどー¦続きを見ていきます。",
    "`$v_$n` って何する関数だっけ¦$jを一度なめて古い行を捨てるだけの補助関数です。",
    "コーヒー淹れてくる¦いってらっしゃいませ。",
    "$jのほうは別チームなので触らなくて大丈夫です。¦わかりました、飛ばします。",
    "👍¦進めます。",
    "さっきビルドが一瞬黄色くなってた気がする¦$jのテストが不安定なだけで、再実行で通りました。",
    "うん、それでいいと思う¦ありがとうございます。",
];

const JA_NOTES: &[&str] = &[
    "まず$jまわりの処理を確認します。",
    "想定どおりでした。念のため$j側も見ておきます。",
    "ここまで特に変わった点はありません。残りを読みます。",
    "呼び出し元を確認します。",
    "$jが空のときの動きを先に見ておきたいです。",
    "$b件は通りました。残りはこの環境では対象外です。",
    "過去に同じ変更がなかったか、履歴を少し見ます。",
    "この部分は問題なさそうです。命名は少し気になりますが、今回は触りません。",
    "件数を増やしてもう一度確かめます。",
    "コンパイルが通ることだけ先に確認します。",
    "出力は長いですが、ほとんど$jの定期出力です。変わった箇所だけ拾います。",
    "別の箇所の$jの扱いと比べてみます。",
    "安定しているか見るために再実行します。",
    "同じ処理を手で書いている箇所がほかにないか探します。",
    "`$v_$n` は$a箇所で使われていて、どれも似た形です。",
    "後半に移ります。新しいものはないと思いますが、一応。",
    "既にあるものを書かないように、一覧を確認します。",
    "$jの起動に少し時間がかかっています。",
    "呼び出しの順序が確認できました。次は$jです。",
    "先に小さな整理をしておきます。差分が読みやすくなるので。",
    "全体の$b%ほど終わりました。",
];

const EN_ANSWERS: &[&str] = &[
    "Done with that step.",
    "I have read it; nothing in there changes the plan.",
    "That went through.",
    "Looks as it should. What next?",
    "Good, that part is finished.",
    "No surprises there.",
    "I went through it, including the older entries, and it fits with what we know.",
];

const JA_ANSWERS: &[&str] = &[
    "ここまで確認しました。",
    "一通り読みました。方針は変わりません。",
    "問題なく終わりました。",
    "こちらは想定どおりです。次に進めます。",
    "この部分は片付きました。",
    "特に驚くような点はありませんでした。",
    "古い分も含めて見ましたが、これまでの話と合っています。",
];
