"""What a person changes on the branch of a job: `holdfast rollback`, and `holdfast checkpoints pin` and `unpin`."""
