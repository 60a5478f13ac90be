//! The functions that a script may call, under the names of both languages.

/// A function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// |x|
    Abs,
    /// Natural logarithm.
    Ln,
    /// Logarithm to base 10.
    Log10,
    /// logn(base, x)
    LogN,
    /// ln(1 + x)
    Log1p,
    /// √x
    Sqrt,
    /// ∛x
    Cbrt,
    /// eˣ
    Exp,
    /// xʸ
    Pow,
    /// The least of two.
    Min,
    /// The largest of two.
    Max,
    /// Up to a whole number.
    Ceil,
    /// Down to a whole number.
    Floor,
    /// To the nearest whole number.
    Round,
    /// Towards zero.
    Truncate,
    /// -1, 0 or 1
    Signum,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Tangent of radians.
    Tan,
    /// Arc sine.
    Asin,
    /// Arc cosine.
    Acos,
    /// Arc tangent.
    Atan,
    /// atan2(y, x)
    Atan2,
    /// √(x² + y²)
    Hypot,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Degrees to radians.
    ToRadians,
    /// Radians to degrees.
    ToDegrees,
    /// haversin(lat, lon, lat, lon) in kilometres.
    Haversin,
    /// saturation(x, k) = x / (x + k)
    Saturation,
    /// sigmoid(x, k, a) = xᵃ / (kᵃ + xᵃ)
    Sigmoid,
}

impl Function {
    /// The function of a name, with or without `Math.`, and how many numbers it takes.
    #[must_use]
    pub fn named(name: &str) -> Option<(Self, usize)> {
        Some(match name {
            "abs" => (Self::Abs, 1),
            "ln" | "log" => (Self::Ln, 1),
            "log10" => (Self::Log10, 1),
            "logn" => (Self::LogN, 2),
            "log1p" => (Self::Log1p, 1),
            "sqrt" => (Self::Sqrt, 1),
            "cbrt" => (Self::Cbrt, 1),
            "exp" => (Self::Exp, 1),
            "pow" => (Self::Pow, 2),
            "min" => (Self::Min, 2),
            "max" => (Self::Max, 2),
            "ceil" => (Self::Ceil, 1),
            "floor" => (Self::Floor, 1),
            "round" | "rint" => (Self::Round, 1),
            "signum" => (Self::Signum, 1),
            "sin" => (Self::Sin, 1),
            "cos" => (Self::Cos, 1),
            "tan" => (Self::Tan, 1),
            "asin" => (Self::Asin, 1),
            "acos" => (Self::Acos, 1),
            "atan" => (Self::Atan, 1),
            "atan2" => (Self::Atan2, 2),
            "hypot" => (Self::Hypot, 2),
            "sinh" => (Self::Sinh, 1),
            "cosh" => (Self::Cosh, 1),
            "tanh" => (Self::Tanh, 1),
            "toRadians" => (Self::ToRadians, 1),
            "toDegrees" => (Self::ToDegrees, 1),
            "haversin" => (Self::Haversin, 4),
            "saturation" => (Self::Saturation, 2),
            "sigmoid" => (Self::Sigmoid, 3),
            _ => return None,
        })
    }

    /// Its value; `arguments` has as many numbers as [`Self::named`] says.
    #[must_use]
    #[inline]
    pub fn apply(self, arguments: &[f64]) -> f64 {
        let x = arguments.first().copied().unwrap_or(f64::NAN);
        let y = arguments.get(1).copied().unwrap_or(f64::NAN);
        match self {
            Self::Abs => x.abs(),
            Self::Ln => x.ln(),
            Self::Log10 => x.log10(),
            Self::LogN => y.ln() / x.ln(),
            Self::Log1p => x.ln_1p(),
            Self::Sqrt => x.sqrt(),
            Self::Cbrt => x.cbrt(),
            Self::Exp => x.exp(),
            Self::Pow => x.powf(y),
            // Unlike f64::min, a number that is none stays visible.
            Self::Min if x.is_nan() || y.is_nan() => f64::NAN,
            Self::Max if x.is_nan() || y.is_nan() => f64::NAN,
            Self::Min => x.min(y),
            Self::Max => x.max(y),
            Self::Ceil => x.ceil(),
            Self::Floor => x.floor(),
            Self::Round => (x + 0.5).floor(),
            Self::Truncate => x.trunc(),
            Self::Signum => {
                if x == 0.0 {
                    x
                } else {
                    x.signum()
                }
            }
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tan => x.tan(),
            Self::Asin => x.asin(),
            Self::Acos => x.acos(),
            Self::Atan => x.atan(),
            Self::Atan2 => x.atan2(y),
            Self::Hypot => x.hypot(y),
            Self::Sinh => x.sinh(),
            Self::Cosh => x.cosh(),
            Self::Tanh => x.tanh(),
            Self::ToRadians => x.to_radians(),
            Self::ToDegrees => x.to_degrees(),
            Self::Haversin => haversin_km(arguments),
            Self::Saturation => x / (x + y),
            Self::Sigmoid => {
                let a = arguments.get(2).copied().unwrap_or(f64::NAN);
                let powered = x.powf(a);
                powered / (y.powf(a) + powered)
            }
        }
    }
}

fn haversin_km(arguments: &[f64]) -> f64 {
    match arguments {
        [lat_a, lon_a, lat_b, lon_b] => {
            let a = crate::geo::GeoPoint { lat: *lat_a, lon: *lon_a };
            let b = crate::geo::GeoPoint { lat: *lat_b, lon: *lon_b };
            crate::geo::distance_m(a, b) / 1000.0
        }
        _ => f64::NAN,
    }
}
