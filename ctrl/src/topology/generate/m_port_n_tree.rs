//! The m-port n-tree: a fat-tree of n levels of m-port switches, as InfiniBand clusters use it
//! (Lin, Chung, Huang, IPDPS 2004; the fabric of the cyclic multicast scheme).

use super::{check, Fabric, GenerateError};
use crate::topology::{End, SwitchIndex, Topology};

/// `2 (m/2)^n` hosts under `(2n - 1) (m/2)^(n-1)` switches of `m` ports in `n` levels.
///
/// With `h = m/2`, a host is a string of digits `p_0 p_1 ... p_(n-1)` where `p_0 < m` and the others `< h`.  A switch is
/// a level `l` (0 at the top) and digits `w_0 ... w_(n-2)`, all `< h`, except that `w_0 < m` below the top.
/// A switch of level `l` and one of level `l + 1` are linked when their digits agree everywhere but in digit `l`:
/// the upper one's port is the lower one's digit, the lower one's port is the upper one's digit plus `h` (ports from 1).
/// A host hangs from the level `n - 1` switch of its first `n - 1` digits, at the port of its last one.
///
/// Switches are named after level and position within it, `l0s1`, top level first; hosts are in digit order.
pub fn m_port_n_tree(m: u32, n: u32) -> Result<Topology, GenerateError> {
    const NAME: &str = "m-port n-tree";
    /// Hosts are numbered through 10.0.0.0 to 10.254.255.255, leaving out .0 and .255.
    const LIMIT: u64 = 255 * 256 * 254;
    check(
        NAME,
        "m",
        m,
        (2..=End::MAX_PORT - 1).contains(&m) && m % 2 == 0,
        "even and 2 to 508",
    )?;
    check(NAME, "n", n, (1..=16).contains(&n), "1 to 16")?;
    let half = m / 2;
    let hosts = u64::from(half).saturating_pow(n).saturating_mul(2);
    if hosts > LIMIT {
        return Err(GenerateError::TooManyHosts {
            topology: NAME,
            hosts,
            limit: LIMIT,
        });
    }

    let mut fabric = Fabric::new(format!("m{m}-port-n{n}-tree"));
    let levels: Vec<Level> = (0..n)
        .map(|l| Level::new(&mut fabric, half, n, l))
        .collect();
    let bottom = &levels[levels.len() - 1];
    for (i, switch) in (0u32..).zip(&bottom.switches) {
        // A single switch spends all its ports on hosts.
        let down = if n == 1 { m } else { half };
        for port in 1..=down {
            let number = i * down + port - 1;
            let [_, a, b, _] = ((number / 254) << 8).to_be_bytes();
            let c = u8::try_from(number % 254 + 1).expect("254 addresses per block");
            let host = fabric.host([10, a, b, c]);
            fabric.link(End::host(host), End::switch(*switch, port));
        }
    }
    for (l, pair) in levels.windows(2).enumerate() {
        let (upper, lower) = (&pair[0], &pair[1]);
        for (i, lower_switch) in lower.switches.iter().enumerate() {
            let mut digits = lower.digits(i);
            let own = digits[l];
            for other in 0..half {
                digits[l] = other;
                let upper_switch = upper.switches[upper.position(&digits)];
                fabric.link(
                    End::switch(*lower_switch, half + other + 1),
                    End::switch(upper_switch, own + 1),
                );
            }
        }
    }
    Ok(fabric.build())
}

/// One level of switches in digit order.
struct Level {
    /// The range of each digit.
    radices: Vec<u32>,
    switches: Vec<SwitchIndex>,
}

impl Level {
    fn new(fabric: &mut Fabric, half: u32, n: u32, level: u32) -> Level {
        let radices: Vec<u32> = (1..n)
            .map(|digit| {
                if digit == 1 && level > 0 {
                    2 * half
                } else {
                    half
                }
            })
            .collect();
        let count: u32 = radices.iter().product();
        let switches = (1..=count)
            .map(|i| fabric.switch(format!("l{level}s{i}")))
            .collect();
        Level { radices, switches }
    }

    fn digits(&self, position: usize) -> Vec<u32> {
        let mut rest = u32::try_from(position).expect("a switch's position fits");
        let mut digits: Vec<u32> = self
            .radices
            .iter()
            .rev()
            .map(|radix| {
                let digit = rest % radix;
                rest /= radix;
                digit
            })
            .collect();
        digits.reverse();
        digits
    }

    fn position(&self, digits: &[u32]) -> usize {
        let number = self
            .radices
            .iter()
            .zip(digits)
            .fold(0, |n, (radix, digit)| n * radix + digit);
        number as usize
    }
}
