//! Free energies of whole recordings.

use super::{Source, upload};
use crate::{
    Experiment, LabError,
    families::{
        frames::Rounds,
        held_out::{batches, data_stream},
    },
};
use burn::module::Module;
use mnemora_models::FilteringModel;
use mnemora_training::{
    Measures, Purpose, arrays::host, measures::mean_and_stderr, particles::Particles,
    strategy::Inference,
};
use mnemora_worlds::{Part, Stream};

/// Scores the recordings of a part; if there are more than `batches` batches, a random choice of them.
pub(super) fn evaluate<M: FilteringModel + Module>(
    experiment: &Experiment,
    inference: &Inference<M>,
    source: &Source,
    part: Part,
    purpose: Purpose,
) -> Result<Measures, LabError> {
    let window = experiment.task.window;
    let size = experiment.evaluation.batch;
    let most = usize::try_from(batches(experiment, purpose))
        .unwrap_or(usize::MAX)
        .saturating_mul(size);
    let seed = purpose.seed(experiment.seed);
    let draws = data_stream(experiment, purpose);
    let mut rows = draws.choose(0, source.count(part), most);
    rows.retain(|row| source.steps(part, *row, window) > 0);
    if rows.is_empty() {
        return Err(LabError::Configuration(format!(
            "{} has no recordings to evaluate on: neither a test nor a validation part",
            source.words()
        )));
    }
    // Batches of similar length; of equal length if the posterior uses later observations.
    let steps = |row: &usize| source.steps(part, *row, window);
    rows.sort_by_key(steps);
    let alone = inference.model().sees_ahead();
    let groups = rows.chunk_by(|a, b| !alone || steps(a) == steps(b));
    let batches = groups.flat_map(|group| group.chunks(size));
    let samples = Stream::new(seed, &format!("{} noise", purpose.stream()));
    let particle_samples = Particles::stream(seed, purpose);
    let mut scores = Vec::new();
    let mut rounds = Rounds::default();
    let mut particles = Particles::new(&experiment.evaluation, purpose);
    let device = inference.model().devices().remove(0);
    for (index, rows) in batches.enumerate() {
        let index = index as u64;
        let batch = source.whole(part, rows, window)?;
        let observations = upload(&batch, &device);
        particles.add(
            inference,
            &observations,
            None,
            &batch.lengths,
            &particle_samples,
        );
        let (filtered, energies) = inference.filter(observations, None, &samples, index);
        rounds.add(&energies, Some(&batch.lengths));
        let reconstruction = host(filtered.reconstruction.into_data());
        let kl = host(filtered.kl.into_data());
        for (row, steps) in batch.lengths.iter().enumerate() {
            let sum = |values: &[f32]| -> f64 {
                let of_row = values.iter().skip(row).step_by(batch.batch);
                of_row.take(*steps).map(|v| f64::from(*v)).sum()
            };
            scores.push(Score {
                steps: *steps,
                reconstruction: sum(&reconstruction),
                kl: sum(&kl),
            });
        }
    }
    Ok(summary(part, &scores, rounds, particles.finish()))
}

/// The score of one recording, in nats.
struct Score {
    steps: usize,
    reconstruction: f64,
    kl: f64,
}

impl Score {
    fn free_energy(&self) -> f64 {
        self.kl - self.reconstruction
    }
}

/// - `recordings.part`: `test`, or `valid` if there is no test part
/// - `recordings.steps`: number of scored steps
/// - `recordings.free_energy`: KL minus reconstruction in nats per step, mean over all steps
/// - `recordings.free_energy_stderr`: its standard error over recordings
/// - `recordings.free_energy_of_recordings`: each recording's nats per step, mean over recordings
/// - `recordings.kl`: KL in nats per step
/// - bounds by particles, if they were asked for
fn summary(part: Part, scores: &[Score], rounds: Rounds, particles: Measures) -> Measures {
    let bounds: Vec<f64> = scores.iter().map(|score| -score.free_energy()).collect();
    let (bound, bound_stderr) = mean_and_stderr(&bounds);
    let steps: usize = scores.iter().map(|score| score.steps).sum();
    let count = scores.len() as f64;
    let total = |of: &dyn Fn(&Score) -> f64| scores.iter().map(of).sum::<f64>();
    let free_energy = total(&Score::free_energy) / steps as f64;
    // Standard error of a ratio of sums over recordings: from the residual of each recording against the overall mean.
    let residuals: Vec<f64> = scores
        .iter()
        .map(|score| score.free_energy() - free_energy * score.steps as f64)
        .collect();
    let (_, stderr) = mean_and_stderr(&residuals);
    let each = |score: &Score| score.free_energy() / score.steps as f64;
    let mut measures = Measures::new()
        .with("sequences", scores.len())
        .with("bound", bound)
        .with("bound_stderr", bound_stderr)
        .with(
            "reconstruction",
            total(&|score| score.reconstruction) / count,
        )
        .with("kl", total(&|score| score.kl) / count)
        .with_some("energy_by_round", Some(rounds.finish()))
        .with("recordings.part", part.to_string())
        .with("recordings.steps", steps)
        .with("recordings.free_energy", free_energy)
        .with(
            "recordings.free_energy_stderr",
            stderr * count / steps as f64,
        )
        .with("recordings.free_energy_of_recordings", total(&each) / count)
        .with("recordings.kl", total(&|score| score.kl) / steps as f64);
    measures.append("recordings.", particles);
    measures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{families::recordings::learner, load_experiment};
    use burn::tensor::Device;
    use mnemora_training::Purpose;

    /// Each recording has its own draws: five recordings in batches of two, the last one smaller.
    #[test]
    fn particles_do_not_depend_on_batches() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("waves.csv");
        let mut rows = String::from("sequence,split,x,y\n");
        for number in 0..8 {
            let part = if number < 3 { "train" } else { "test" };
            for t in 0..6 {
                let x = f64::from(t + number).sin();
                rows.push_str(&format!("{number},{part},{x},{t}\n"));
            }
        }
        std::fs::write(&table, rows).unwrap();
        let bounds = |batch: usize| {
            let batch = format!("evaluation.batch={batch}");
            let overrides = [
                "task.name=own",
                "task.window=4",
                "filtering.strategy=direct",
                "model.name=srnn",
                "model.likelihood=normal",
                "model.latent=3",
                "network.srnn.hidden=6",
                "network.srnn.units=5",
                "evaluation.particles=4",
                "evaluation.batches=100",
                batch.as_str(),
            ];
            let overrides = overrides.map(str::to_owned);
            let mut experiment = load_experiment("jsb-chorales-small", &overrides).unwrap();
            let source = Source::find(&mut experiment, Some(&table)).unwrap();
            let learner = learner(&experiment, source, &Device::default()).unwrap();
            let found = learner.evaluate(Purpose::Final, 0).unwrap().measures;
            assert_eq!(found.count("recordings.steps"), Some(30));
            ["importance_weighted", "particle_filter"]
                .map(|key| found.number(&format!("recordings.{key}")).unwrap())
        };
        let alone = bounds(1);
        for batch in [2, 3, 5] {
            for (found, expected) in bounds(batch).into_iter().zip(alone) {
                assert!(
                    (found - expected).abs() < 1e-6 * expected.abs(),
                    "by {batch}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_step_of_a_long_recording_counts_as_one_of_a_short_one() {
        let score = |steps, reconstruction, kl| Score {
            steps,
            reconstruction,
            kl,
        };
        let scores = [score(10, -30.0, 10.0), score(30, -60.0, 0.0)];
        let found = summary(Part::Test, &scores, Rounds::default(), Measures::new());
        let of = |key: &str| found.number(key).unwrap();
        assert_eq!(of("recordings.free_energy"), 100.0 / 40.0);
        assert_eq!(
            of("recordings.free_energy_of_recordings"),
            (4.0 + 2.0) / 2.0
        );
        assert_eq!(of("recordings.kl"), 0.25);
        assert_eq!(of("bound"), -50.0);
        // The residuals are 15 and -15.
        let expected = 15.0 * 2.0_f64.sqrt() / 2.0_f64.sqrt() * 2.0 / 40.0;
        assert!((of("recordings.free_energy_stderr") - expected).abs() < 1e-12);
        assert_eq!(found.get("recordings.particles"), None);
    }
}
