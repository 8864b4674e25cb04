"""A trainer for nnU-Net that is short, and saves at each end of an epoch. nnU-Net finds it by `nnUNet_extTrainer`."""

from typing import Any

import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer


class ShortTrainer(nnUNetTrainer):
    """Eight epochs of ten steps."""

    # nnU-Net asks for the parameters by these names.
    def __init__(
        self, plans: dict[str, Any], configuration: str, fold: int, dataset_json: dict[str, Any], device: torch.device
    ) -> None:
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.num_epochs, self.num_iterations_per_epoch, self.num_val_iterations_per_epoch = 8, 10, 1
        self.save_every = 1

    def perform_actual_validation(self, save_probabilities: bool = False) -> None:
        """Leave out the prediction of whole images at the end, which takes longer than the training."""
