//! Converts numbers of a payload to the types of a schema.

use crate::plan::Kind;
use crate::sink::Scalar;
use crate::source::Value;
use crate::violation::Rule;

/// Why a number does not fit.
pub(crate) type NumberError = (Rule, &'static str);

/// Converts to the integer of a field of `kind`.
pub(crate) fn integer(kind: Kind, value: &Value<'_>) -> Result<Scalar<'static>, NumberError> {
    let wide = match value {
        Value::Int(value) => i128::from(*value),
        Value::Uint(value) => i128::from(*value),
        Value::Decimal(text) => whole(text.parse().unwrap_or(f64::NAN))?,
        Value::Float(value) => whole(*value)?,
        other => return Err((Rule::Type, other.describe())),
    };
    let outside = (Rule::Range, "a number outside of its range");
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            i32::try_from(wide).map(|value| Scalar::Int(i64::from(value))).map_err(|_| outside)
        }
        Kind::Uint32 | Kind::Fixed32 => {
            u32::try_from(wide).map(|value| Scalar::Uint(u64::from(value))).map_err(|_| outside)
        }
        Kind::Uint64 | Kind::Fixed64 => u64::try_from(wide).map(Scalar::Uint).map_err(|_| outside),
        _ => i64::try_from(wide).map(Scalar::Int).map_err(|_| outside),
    }
}

/// Converts a number without a fraction.
fn whole(value: f64) -> Result<i128, NumberError> {
    if value.is_finite() && value.trunc() == value {
        return Ok(value as i128);
    }
    Err((Rule::Type, "a number with a fraction"))
}

/// Parses an integer that is written as a string.
pub(crate) fn integer_text(kind: Kind, text: &str) -> Result<Scalar<'static>, NumberError> {
    integer(kind, &text_value(text)?)
}

/// Parses an integer that is the key of a map: only digits.
pub(crate) fn integer_key(kind: Kind, text: &str) -> Result<Scalar<'static>, NumberError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err((Rule::Type, "a string that is not an integer"));
    }
    integer_text(kind, text)
}

/// Parses a number that is written as a string, by the grammar of JSON.
fn text_value(text: &str) -> Result<Value<'_>, NumberError> {
    let no_number = (Rule::Type, "a string that is not a number");
    if !is_json_number(text) {
        return Err(no_number);
    }
    if let Ok(value) = text.parse() {
        return Ok(Value::Int(value));
    }
    if let Ok(value) = text.parse() {
        return Ok(Value::Uint(value));
    }
    if text.parse::<f64>().is_ok() { Ok(Value::Decimal(text)) } else { Err(no_number) }
}

/// Whether the text is a number by the grammar of JSON, which is narrower than that of the standard library.
fn is_json_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let whole = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let has_zeros_before = whole > 1 && unsigned.starts_with('0');
    let rest = &unsigned[whole..];
    let after_point = rest.strip_prefix('.').unwrap_or(rest);
    let fraction = after_point.bytes().take_while(u8::is_ascii_digit).count();
    let is_point_alone = rest.starts_with('.') && fraction == 0;
    let exponent = if rest.starts_with('.') { &after_point[fraction..] } else { rest };
    let is_exponent = exponent.is_empty()
        || exponent.strip_prefix(['e', 'E']).is_some_and(|digits| {
            let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
            !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
        });
    whole > 0 && !has_zeros_before && !is_point_alone && is_exponent
}

/// The value of a `double`.
pub(crate) fn double(value: &Value<'_>, is_text: bool) -> Result<f64, NumberError> {
    match value {
        Value::Int(value) => Ok(*value as f64),
        Value::Uint(value) => Ok(*value as f64),
        Value::Float(value) => Ok(*value),
        Value::Decimal(text) => finite(text.parse().unwrap_or(f64::NAN)),
        Value::Text(text) if is_text => match &*text.decoded() {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            text => double(&text_value(text)?, is_text),
        },
        other => Err((Rule::Type, other.describe())),
    }
}

/// The value of a `float`.
pub(crate) fn float(value: &Value<'_>, is_text: bool) -> Result<f32, NumberError> {
    let wide = double(value, is_text)?;
    // Numbers that round down to the greatest float still fit.
    const TOO_LARGE: f64 = 3.402_823_567_797_336_6e38;
    if wide.is_finite() && wide.abs() >= TOO_LARGE {
        return Err((Rule::Range, "a number outside of its range"));
    }
    Ok(wide as f32)
}

fn finite(value: f64) -> Result<f64, NumberError> {
    if value.is_finite() { Ok(value) } else { Err((Rule::Range, "a number outside of its range")) }
}

/// Whether the text of a number certainly fits, without converting it.
pub(crate) fn is_in_range(text: &str, is_float: bool) -> bool {
    let digits_max = if is_float { 38 } else { 300 };
    text.len() <= digits_max && !text.bytes().any(|byte| byte | 0x20 == b'e')
}
