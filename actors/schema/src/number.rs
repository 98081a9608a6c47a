//! Numbers, compared and divided as what they say, not as what a float makes of them.

use std::cmp::Ordering;

use serde_json::Number;

/// A number as digits and a power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    power: i32,
}

impl Decimal {
    /// `None` for more digits than fit.
    fn of(number: &Number) -> Option<Self> {
        if let Some(digits) = whole(number) {
            return Some(Self { digits, power: 0 });
        }
        // The shortest text that means this float, which is what a person wrote.
        let text = number.to_string();
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let power: i32 = power.parse().ok()?;
        Some(Self { digits, power: power.checked_sub(i32::try_from(fraction.len()).ok()?)? })
    }

    /// The digits that it has at a lower power.
    fn at(self, power: i32) -> Option<i128> {
        let up = u32::try_from(self.power.checked_sub(power)?).ok()?;
        match self.digits {
            0 => Some(0),
            digits => digits.checked_mul(10_i128.checked_pow(up)?),
        }
    }
}

/// A number that has no fraction, unless it is very large.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    let of_float = |float: f64| (float.fract() == 0.0 && float.abs() < 1e38).then_some(float as i128);
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    whole.or_else(|| number.as_f64().and_then(of_float))
}

/// Whether a number has no fraction.
pub(crate) fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// How two numbers stand to each other.
pub(crate) fn order(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => order_of_decimals(a, b).unwrap_or_else(|| {
            let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
            float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal)
        }),
    }
}

fn order_of_decimals(a: &Number, b: &Number) -> Option<Ordering> {
    let (a, b) = (Decimal::of(a)?, Decimal::of(b)?);
    let power = a.power.min(b.power);
    Some(a.at(power)?.cmp(&b.at(power)?))
}

/// Whether a number is a multiple of another one, which is above 0.
pub(crate) fn is_multiple(number: &Number, of: &Number) -> bool {
    let exactly = || {
        let (number, of) = (Decimal::of(number)?, Decimal::of(of)?);
        let power = number.power.min(of.power);
        number.at(power)?.checked_rem(of.at(power)?)
    };
    match (exactly(), number.as_f64(), of.as_f64()) {
        (Some(rest), _, _) => rest == 0,
        (None, Some(number), Some(of)) => number % of == 0.0,
        (None, _, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_are_compared_as_written() {
        for (a, b, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("18446744073709551615", "-1", Ordering::Greater),
            ("0.1", "0.10000000000000001", Ordering::Equal),
            ("1e300", "1e301", Ordering::Less),
            ("-1.5", "-1", Ordering::Less),
        ] {
            assert_eq!(order(&number(a), &number(b)), expected, "{a} {b}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (of, yes, no) in
            [("0.01", "19.99", "19.995"), ("0.1", "1.1", "1.15"), ("3", "9", "10"), ("1.5", "4.5", "4")]
        {
            assert!(is_multiple(&number(yes), &number(of)) && !is_multiple(&number(no), &number(of)), "{of}");
        }
        assert!(is_multiple(&number("1e308"), &number("0.5")) && is_multiple(&number("0"), &number("7")));
    }
}
