// SPDX-License-Identifier: GPL-3.0-or-later
//! JSON's numbers as exact decimals: 0.3 is a multiple of 0.1, and 9007199254740993 is more than
//! 9007199254740992. Also the text in which equal JSON values are equal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// SIGN times DIGITS times ten to the EXPONENT. Digits end in no zero, so equal numbers are equal
/// field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    /// -1, 0 or 1.
    sign: i8,
    /// At most 20 digits: what 64 bits can hold, or the shortest text of a double.
    digits: u64,
    exponent: i64,
}

impl Decimal {
    const ZERO: Self = Self {
        sign: 0,
        digits: 0,
        exponent: 0,
    };

    /// The number as its text says it.
    pub(super) fn of(number: &Number) -> Self {
        let text = number.to_string();
        let (sign, text) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.as_str()),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = 0_u64;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .saturating_mul(10)
                .saturating_add(u64::from(digit.wrapping_sub(b'0')));
        }
        let fraction = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        Self::normal(sign, digits, exponent.parse().unwrap_or(0) - fraction)
    }

    fn normal(sign: i8, mut digits: u64, mut exponent: i64) -> Self {
        if digits == 0 {
            return Self::ZERO;
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Self {
            sign,
            digits,
            exponent,
        }
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn is_positive(&self) -> bool {
        self.sign > 0
    }

    /// The number as a count, such as those of `minLength`; none if it is negative or a fraction.
    pub(super) fn count(&self) -> Option<u64> {
        if self.sign < 0 || !self.is_integer() {
            return None;
        }
        let factor = 10_u64.checked_pow(u32::try_from(self.exponent).ok()?)?;
        self.digits.checked_mul(factor)
    }

    /// Whether DIVISOR, which is positive, goes into the number without a rest.
    pub(super) fn is_multiple_of(&self, divisor: &Self) -> bool {
        let shift = self.exponent - divisor.exponent;
        if shift < 0 {
            // The divisor has the zeros at its end; more of them than 39 are more than any digits.
            return self.sign == 0
                || 10_u128
                    .checked_pow(u32::try_from(-shift).unwrap_or(u32::MAX))
                    .and_then(|power| power.checked_mul(u128::from(divisor.digits)))
                    .is_some_and(|divisor| u128::from(self.digits).is_multiple_of(divisor));
        }
        let modulus = u128::from(divisor.digits.max(1));
        let mut rest = u128::from(self.digits) % modulus;
        for _ in 0..shift {
            if rest == 0 {
                break;
            }
            rest = rest * 10 % modulus;
        }
        rest == 0
    }

    fn magnitude(&self, other: &Self) -> Ordering {
        fn order(decimal: &Decimal) -> i64 {
            i64::from(decimal.digits.ilog10()) + decimal.exponent
        }
        order(self).cmp(&order(other)).then_with(|| {
            let lowest = self.exponent.min(other.exponent);
            // The same order of magnitude, so at most 20 digits each.
            let aligned = |decimal: &Self| {
                let zeros = u32::try_from(decimal.exponent - lowest).unwrap_or(0);
                u128::from(decimal.digits).saturating_mul(10_u128.saturating_pow(zeros))
            };
            aligned(self).cmp(&aligned(other))
        })
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign.cmp(&other.sign).then_with(|| match self.sign {
            0 => Ordering::Equal,
            1 => self.magnitude(other),
            _ => other.magnitude(self),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.sign < 0 { "-" } else { "" };
        let digits = self.digits.to_string();
        let point = i64::try_from(digits.len()).unwrap_or(0) + self.exponent;
        match self.exponent {
            0..=20 => write!(
                formatter,
                "{sign}{digits}{}",
                "0".repeat(self.exponent as usize)
            ),
            -20..0 if point > 0 => {
                let (whole, fraction) = digits.split_at(point as usize);
                write!(formatter, "{sign}{whole}.{fraction}")
            }
            -20..0 => write!(formatter, "{sign}0.{}{digits}", "0".repeat(-point as usize)),
            exponent => write!(formatter, "{sign}{digits}e{exponent}"),
        }
    }
}

/// A text that two values share exactly when JSON Schema calls them equal: 1 and 1.0 are, and
/// objects whatever the order of their members.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => {
            let Decimal {
                sign,
                digits,
                exponent,
            } = Decimal::of(number);
            format!("{sign}:{digits}e{exponent}")
        }
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(canonical).collect();
            format!("[{}]", elements.join(","))
        }
        Value::Object(members) => {
            let members: BTreeMap<&String, String> = members
                .iter()
                .map(|(name, value)| (name, canonical(value)))
                .collect();
            format!("{members:?}")
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn one_number_has_one_form() {
        for texts in [["1", "1.0"], ["100", "1e2"], ["0", "-0.0"], ["0.5", "5e-1"]] {
            assert_eq!(decimal(texts[0]), decimal(texts[1]), "{texts:?}");
        }
    }

    #[test]
    fn neighbours_beyond_the_digits_of_doubles_differ() {
        assert!(decimal("9007199254740993") > decimal("9007199254740992"));
        assert!(decimal("18446744073709551615") > decimal("18446744073709551614"));
        assert!(decimal("-9007199254740993") < decimal("-9007199254740992"));
        assert!(decimal("1e300") > decimal("18446744073709551615"));
        assert!(decimal("0.1") < decimal("0.10000000000000002"));
    }

    #[test]
    fn multiples_are_those_of_the_decimal() {
        for (number, divisor) in [
            ("0.3", "0.1"),
            ("19.99", "0.01"),
            ("0", "7"),
            ("1e308", "0.5"),
        ] {
            assert!(
                decimal(number).is_multiple_of(&decimal(divisor)),
                "{number}"
            );
        }
        for (number, divisor) in [("0.35", "0.1"), ("7", "1e30"), ("1e308", "0.123456789")] {
            assert!(
                !decimal(number).is_multiple_of(&decimal(divisor)),
                "{number}"
            );
        }
    }

    proptest! {
        #[test]
        fn orders_integers_as_integers(one: i64, other: i64) {
            let (a, b) = (Decimal::of(&one.into()), Decimal::of(&other.into()));
            prop_assert_eq!(a.cmp(&b), one.cmp(&other));
        }

        #[test]
        fn orders_doubles_as_doubles(one in -1e30..1e30, other in -1e-3..1e3) {
            let [a, b] = [one, other].map(|x| Decimal::of(&Number::from_f64(x).unwrap()));
            prop_assert_eq!(a.partial_cmp(&b), one.partial_cmp(&other));
        }

        #[test]
        fn divides_integers_as_integers(number: i64, divisor in 1..10_000_i64) {
            let [a, b] = [number, divisor].map(|x| Decimal::of(&x.into()));
            prop_assert_eq!(a.is_multiple_of(&b), number % divisor == 0);
        }
    }
}
