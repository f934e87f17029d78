//! Values in sentences: which of them are of one sort, so that one can take the place of another. Numbers by what they
//! count, ids by how they look, days of the week, months, numbers that are written as words.

use super::scan::Kind;
use super::statement::hash;

/// Of numbers that count nothing.
pub(super) const NO_UNIT: u32 = 0;

/// Of paths and addresses.
pub(super) const PATHS: u32 = 1;
pub(super) const URLS: u32 = 2;
/// Of shares: 0.25.
pub(super) const SHARE: u32 = 3;
/// Of people.
pub(super) const PERSON: u32 = 4;

/// The name in a run of kanji, if it is that of a person: what follows, or how it ends, says so.
pub(super) fn person<'a>(run: &'a str, behind: &str) -> Option<&'a str> {
    const BEHIND: [&str; 5] = ["さん", "様", "氏", "くん", "先生"];
    const TITLES: [&str; 12] =
        ["部長", "課長", "係長", "次長", "室長", "所長", "店長", "社長", "主任", "教授", "先生", "博士"];
    const LONGEST: usize = 4;
    let name = TITLES.iter().find_map(|title| run.strip_suffix(title));
    let name = name.or_else(|| BEHIND.iter().any(|word| behind.starts_with(word)).then_some(run))?;
    (1..=LONGEST).contains(&name.chars().count()).then_some(name)
}

/// Whether a word stands before the name of a person.
pub(super) fn is_title(word: &str) -> bool {
    ["Mr", "Mrs", "Ms", "Dr", "Prof", "Professor"].contains(&word)
}

/// What an id looks like: runs of letters and of digits are all the same, what stands between them is not.
pub(super) fn sort(kind: Kind, token: &str) -> u32 {
    match kind {
        Kind::Path => return PATHS,
        Kind::Url => return URLS,
        Kind::Word | Kind::Run | Kind::Number | Kind::Id | Kind::Name | Kind::Quoted => {}
    }
    let mut shape = 0x811c_9dc5_u32;
    let mut last = 0;
    for part in token.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let letters = part.bytes().any(|byte| byte.is_ascii_alphabetic());
        let mark = part.bytes().last().filter(|byte| !byte.is_ascii_alphanumeric()).unwrap_or_default();
        let class = u32::from(letters) << 8 | u32::from(mark);
        if class != last || mark == 0 {
            shape = (shape ^ class).wrapping_mul(0x0100_0193);
        }
        last = class;
    }
    shape
}

pub(super) fn is_month(word: &str) -> bool {
    MONTHS.iter().any(|month| word.get(..3) == Some(*month))
        && (word.len() == 3 || LONG_MONTHS.contains(&&word[3..]))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const LONG_MONTHS: [&str; 10] = ["uary", "ruary", "ch", "il", "e", "y", "ust", "tember", "ober", "ember"];

/// Whether what stands between two numbers makes them one date.
pub(super) fn is_date(between: &str) -> bool {
    matches!(between, "年" | "月")
}

/// The sort of days of the week.
pub(super) fn weekdays() -> u32 {
    hash("weekday")
}

/// The day of the week that a word names.
pub(super) fn weekday(word: &str) -> Option<u32> {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let found = DAYS.iter().position(|day| word.strip_suffix('s').unwrap_or(word) == *day || word == *day)?;
    u32::try_from(found).ok()
}

/// The day of the week in a run of kanji: 月曜, 来週火曜日.
pub(super) fn weekday_in(run: &str) -> Option<u32> {
    let (before, _) = run.split_once('曜')?;
    let day = before.chars().next_back()?;
    let found = ['月', '火', '水', '木', '金', '土', '日'].iter().position(|one| *one == day)?;
    u32::try_from(found).ok()
}

/// The digits of a number that is written as a word. One is rather a pronoun.
pub(super) fn digits(word: &str) -> Option<&'static str> {
    const NUMBERS: [(&str, &str); 20] = [
        ("two", "2"),
        ("three", "3"),
        ("four", "4"),
        ("five", "5"),
        ("six", "6"),
        ("seven", "7"),
        ("eight", "8"),
        ("nine", "9"),
        ("ten", "10"),
        ("eleven", "11"),
        ("twelve", "12"),
        ("fifteen", "15"),
        ("twenty", "20"),
        ("thirty", "30"),
        ("forty", "40"),
        ("fifty", "50"),
        ("sixty", "60"),
        ("ninety", "90"),
        ("hundred", "100"),
        ("thousand", "1000"),
    ];
    NUMBERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, digits)| *digits)
}

/// Whether what follows belongs to a number before: 4,200.
pub(super) fn is_thousands(between: &str, token: &str) -> bool {
    let digits = token.bytes().take_while(u8::is_ascii_digit).count();
    between == "," && digits == 3
}

#[cfg(test)]
mod tests {
    use super::super::statement::Statement;
    use super::*;

    #[test]
    fn values_are_known_in_words_too() {
        assert_eq!((digits("Twelve"), digits("one"), digits("tent")), (Some("12"), None, None));
        assert_eq!(
            (weekday("Tuesday"), weekday("Tuesdays"), weekday("Tuesdayish")),
            (Some(1), Some(1), None)
        );
        assert_eq!((weekday_in("来週水曜日"), weekday_in("水道")), (Some(2), None));
        assert!(is_thousands(",", "200") && !is_thousands(", ", "200") && !is_thousands(",", "20"));
    }

    #[test]
    fn a_number_with_a_comma_is_one_value() {
        let whole = Statement::of("about 12,345 pallets");
        assert_eq!((whole.values.len(), whole.numbers), (1, 1));
        let set = Statement::of("with RETRY_MAX=7 it is fine");
        assert_eq!(set.settings.len(), 1);
    }
}
