//! The model by itself: bytes are kept, the disk is not outrun, and level 0 stays bounded. That the same seed
//! gives the same run is `determinism.rs`' affair.

use super::*;

const MB: f64 = 1e6;
const SECOND_NS: u64 = 1_000_000_000;

/// One small node on a slow disk, asked by the clock.
pub(crate) fn small(arm: Arm, rate_s: f64) -> LevelsSpec {
    LevelsSpec {
        machine: Machine { cpus: 2.0, disks: 1, disk_bytes_s: 60.0 * MB },
        shape: Shape {
            memtable_bytes: 8.0 * MB,
            memtables_max: 64,
            budget_bytes: Some(32.0 * MB),
            level_0: (4, 400),
            level_base_bytes: 32.0 * MB,
            level_ratio: 10.0,
            file_bytes: 8.0 * MB,
            rows_bytes: 150.0 * MB,
            flush_threads: 1,
            compaction_threads: 1,
            sync_bytes: 1_048_576.0,
            log_is_synced: true,
        },
        costs: Costs::of_one_copy(25.0, 67.0),
        nodes: 1,
        partitions: 4,
        copies: 1,
        client_machines: 1,
        asked: Asked::Open { rate_s },
        reads: 0.0,
        value_bytes: 1_024.0,
        is_zipfian: false,
        arm,
        warm_up_ns: 5 * SECOND_NS,
        window_ns: 25 * SECOND_NS,
    }
}

pub(crate) const ARMS: [Arm; 4] =
    [Arm::Off, Arm::Limiter { bytes_s: 60_000_000 }, Arm::Auto { bytes_s: 60_000_000 }, Arm::Ours];

#[test]
fn what_came_in_lies_somewhere_or_was_replaced() {
    for arm in ARMS {
        let found = run(&small(arm, 4_000.0), 3);
        assert!(found.came_in_bytes > 100.0 * MB, "{arm:?}");
        assert!(found.lost() < 1e-6, "{arm:?}: {}", found.lost());
        assert!(found.replaced_bytes > 0.0, "{arm:?}");
        assert!(found.written_per_byte.is_some_and(|it| it > 2.0), "log and file at least");
    }
}

#[test]
fn the_disk_is_never_outrun() {
    for arm in ARMS {
        let found = run(&small(arm, 9_000.0), 4);
        assert!(found.disk_peak <= 1.0 + 1e-9, "{arm:?}: {}", found.disk_peak);
        assert!(found.course.iter().all(|second| second.written_bytes <= 60_000_001), "{arm:?}");
    }
}

#[test]
fn level_0_is_bounded_where_what_comes_in_can_be_held() {
    for arm in ARMS {
        let found = run(&small(arm, 4_000.0), 5);
        assert!(found.level_0_max < 64, "{arm:?}: {}", found.level_0_max);
        assert_eq!(found.stops, 0, "{arm:?}");
    }
}

#[test]
fn more_than_the_disk_can_take_is_refused_by_ours_before_stores_stop() {
    let mut spec = small(Arm::Ours, 20_000.0);
    spec.window_ns = 60 * SECOND_NS;
    let found = run(&spec, 6);
    assert!(found.refused > 0);
    // The law looks once a second, in which a third of so small a budget comes in: a few batches meet a
    // store that takes nothing before the law has acted.
    assert!(found.stops * 1_000 < found.writes_us.len(), "{}", found.stops);
}

#[test]
fn copies_are_on_different_nodes_and_all_of_them_take_what_is_written() {
    let mut spec = small(Arm::Off, 2_000.0);
    (spec.nodes, spec.partitions, spec.copies) = (5, 16, 3);
    spec.shape.log_is_synced = false;
    let found = run(&spec, 7);
    let one_copy = found.came_in_bytes / 3.0 / (1_024.0 + 40.0);
    let asked = 2_000.0 * 30.0;
    assert!((one_copy / asked - 1.0).abs() < 0.02, "{one_copy}");
}

#[test]
fn a_closed_loop_obeys_littles_law() {
    let mut spec = small(Arm::Off, 0.0);
    spec.asked = Asked::Closed { threads: 16 };
    (spec.reads, spec.window_ns) = (0.5, 5 * SECOND_NS);
    let found = run(&spec, 8);
    let under_way =
        (found.reads_s() * found.reads_us.mean() + found.writes_s() * found.writes_us.mean()) / 1e6;
    assert!((under_way / 16.0 - 1.0).abs() < 0.02, "{under_way}");
}
