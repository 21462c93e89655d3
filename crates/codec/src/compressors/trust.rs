//! When the encoder may take for granted what compressing again would show.

/// After this number of successive inputs that one compressor recreated, the encoder assumes that
/// it recreates the next ones, if the other compressor of the method failed on one of them.
const TRUSTED_FROM: u32 = 16;
/// The same number if the other compressor failed on none of them.
const TRUSTED_UNTOLD_FROM: u32 = 64;
/// One of this number of inputs is still checked then.
const TRIED_OF: u32 = 32;

/// Whether the encoder may assume that a compressor recreates what a server compressed, without trying it.
///
/// Used only if a proof by decoding follows, which compresses each input again. Compressing twice
/// would take most of the time of such a segment.
#[derive(Debug, Default)]
pub struct Trust {
    /// Number of successive inputs that the likely compressor recreated.
    reproduced: u32,
    /// The other compressor failed on one of them.
    told_apart: bool,
    /// Number of inputs not checked since the last one that was.
    granted: u32,
}

impl Trust {
    /// The next input need not be tried.
    pub fn is_earned(&mut self) -> bool {
        let enough = match self.told_apart {
            true => TRUSTED_FROM,
            false => TRUSTED_UNTOLD_FROM,
        };
        let earned = self.reproduced >= enough && self.granted + 1 < TRIED_OF;
        if earned {
            self.granted += 1;
        }
        earned
    }

    /// The other compressor failed on an input that the likely one recreated.
    pub fn is_told_apart(&self) -> bool {
        self.told_apart
    }

    /// The likely compressor recreated an input; the other one failed on it, or may have.
    pub fn grow(&mut self, told_apart: bool) {
        self.reproduced += 1;
        self.told_apart |= told_apart;
        self.granted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(trust: &mut Trust, told_apart: bool, inputs: u32) -> u32 {
        let earned = (0..inputs).filter(|_| {
            let earned = trust.is_earned();
            if !earned {
                trust.grow(told_apart);
            }
            earned
        });
        earned.count() as u32
    }

    #[test]
    fn trust_is_earned_and_some_inputs_are_tried_nevertheless() {
        let mut trust = Trust::default();
        assert_eq!(trusted(&mut trust, true, TRUSTED_FROM), 0);
        let granted = trusted(&mut trust, true, 10 * TRIED_OF);
        assert_eq!(granted, 10 * (TRIED_OF - 1));
        let mut trust = Trust::default();
        assert_eq!(trusted(&mut trust, false, TRUSTED_UNTOLD_FROM), 0);
        assert_eq!(trusted(&mut trust, false, 5), 5);
    }
}
