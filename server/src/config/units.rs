//! Parses and prints sizes and durations: `16MiB`, `500ms`.

use std::time::Duration;

const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Units in milliseconds.
const TIMES: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Splits `64 KiB` into 64 and `KiB`.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// Parses a size. A number without a unit is in bytes.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "must be a size such as 64KiB, 16MiB or 1048576 (B, KiB, MiB, GiB, TiB)".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = if unit.is_empty() { "B" } else { unit };
    let (_, size) = SIZES.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).ok_or_else(wrong)?;
    number.checked_mul(*size).ok_or_else(|| "is more than 64 bits hold".to_owned())
}

/// Parses a duration. A number without a unit is refused, because it is ambiguous.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "must be a time such as 500ms, 30s or 10m (ms, s, m, h)".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let (_, length) = TIMES.iter().find(|(name, _)| unit == *name).ok_or_else(wrong)?;
    number
        .checked_mul(*length)
        .map(Duration::from_millis)
        .ok_or_else(|| "is more than 64 bits hold".to_owned())
}

/// Prints a size in the largest unit without remainder.
pub(super) fn show_bytes(bytes: u64) -> String {
    show(bytes, &SIZES).unwrap_or_else(|| "0".to_owned())
}

/// Prints a duration in the largest unit without remainder.
pub(super) fn show_duration(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    show(milliseconds, &TIMES).unwrap_or_else(|| "0s".to_owned())
}

fn show(number: u64, units: &[(&str, u64)]) -> Option<String> {
    let (name, size) = units.iter().find(|(_, size)| number > 0 && number.is_multiple_of(*size))?;
    Some(format!("{}{name}", number / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024_and_print_as_they_read() {
        let good =
            [("0", 0), ("1048576", 1 << 20), ("16MiB", 16 << 20), ("64 KiB", 64 << 10), ("3gib", 3 << 30)];
        for (text, value) in good {
            assert_eq!(bytes(text), Ok(value), "{text}");
            assert_eq!(bytes(&show_bytes(value)), Ok(value), "{text}");
        }
        assert_eq!(show_bytes(1537), "1537B");
        for bad in ["", "MiB", "16MB", "1.5MiB", "-1", "16 MiB x", "99999999999999999999"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes("99999999TiB"), Err("is more than 64 bits hold".to_owned()));
    }

    #[test]
    fn times_have_a_unit_and_print_as_they_read() {
        let good = [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("0s", 0)];
        for (text, value) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(value)), "{text}");
            assert_eq!(show_duration(Duration::from_millis(value)), text);
        }
        for bad in ["30", "", "s", "1d", "1.5s", "-1s", "30S"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(show_duration(Duration::from_millis(90_000)), "90s");
    }
}
