"""Make molecules with energies and forces of a simple potential, in train.xyz and valid.xyz."""

import numpy as np
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write

random = np.random.default_rng(1)
rows = []
for _ in range(840):
    atoms = Atoms("Ar4", random.normal(scale=0.15, size=(4, 3)) + np.vstack([np.zeros(3), 3 * np.eye(3)]))
    atoms.set_cell([20, 20, 20])
    atoms.pbc = True
    atoms.calc = LennardJones(sigma=2.7, epsilon=0.5, rc=9.0)
    energy, forces = atoms.get_potential_energy(), atoms.get_forces()
    atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
    atoms.info["REF_energy"], atoms.arrays["REF_forces"] = energy, forces
    rows.append(atoms)
lonely = Atoms("Ar", cell=[20, 20, 20], pbc=True)
lonely.info |= {"config_type": "IsolatedAtom", "REF_energy": 0.0}
write("train.xyz", [lonely, *rows[:800]])
write("valid.xyz", rows[800:])
