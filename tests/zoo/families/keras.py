"""Programs with Keras, on each backend that runs on a CPU, and with JAX."""

from tests.zoo.program import Program

WHY = "BackupAndRestore keeps weights, optimizer and epoch; nothing is random after the start."
RESUMED = r"(?s)\A(?!.*epoch begins: 0).*epoch begins: [1-9]"
PATTERNS = ("step {step}/{total} loss={loss}",)

PROGRAMS = (
    Program(
        name="keras-torch",
        group="torch",
        package="keras",
        command="exec python $drivers/keras_fit.py $folder",
        saves=("backup/*.weights.h5",),
        resumed=RESUMED,
        final="final.weights.h5",
        patterns=PATTERNS,
        steps=240,
        pause=0.07,
        promise="exact",
        why=WHY,
    ),
    Program(
        name="keras-jax",
        group="torch",
        package="keras",
        command="exec python $drivers/keras_fit.py $folder",
        environment={"KERAS_BACKEND": "jax"},
        saves=("backup/*.weights.h5",),
        resumed=RESUMED,
        final="final.weights.h5",
        patterns=PATTERNS,
        steps=240,
        pause=0.07,
        promise="exact",
        why=WHY,
    ),
)
