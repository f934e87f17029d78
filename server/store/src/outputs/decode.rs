//! Bytes as text, piece by piece: what is not UTF-8 is shown as U+FFFD.

/// Decodes pieces that may end within a character.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    begun: Vec<u8>,
}

impl Decoder {
    /// Adds the text of the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        let mut rest = bytes;
        while !self.begun.is_empty() {
            let Some((next, behind)) = rest.split_first() else { return };
            self.begun.push(*next);
            match std::str::from_utf8(&self.begun) {
                Ok(text) => {
                    out.push_str(text);
                    self.begun.clear();
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => {
                    // The byte that does not belong to it begins something else.
                    self.begun.clear();
                    out.push(char::REPLACEMENT_CHARACTER);
                    break;
                }
            }
            rest = behind;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    return;
                }
                Err(error) => {
                    let (valid, behind) = rest.split_at(error.valid_up_to());
                    out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    match error.error_len() {
                        None => {
                            self.begun.extend_from_slice(behind);
                            return;
                        }
                        Some(bad) => {
                            out.push(char::REPLACEMENT_CHARACTER);
                            rest = &behind[bad..];
                        }
                    }
                }
            }
        }
    }

    /// Adds what a character that never ended is shown as.
    pub(super) fn finish(&mut self, out: &mut String) {
        if !self.begun.is_empty() {
            self.begun.clear();
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Forgets a character that has begun.
    pub(super) fn clear(&mut self) {
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = "aé日🦀\n".repeat(2).into_bytes();
            for _ in 0..rng.usize(..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            bytes.truncate(rng.usize(..=bytes.len()));
            let (mut decoder, mut text) = (Decoder::default(), String::new());
            let piece = rng.usize(1..5);
            bytes.chunks(piece).for_each(|piece| decoder.push(piece, &mut text));
            decoder.finish(&mut text);
            assert_eq!(text, String::from_utf8_lossy(&bytes), "{bytes:?} by {piece}");
        }
    }
}
