"""The commands of `holdfast-train` for models and data. Entry points in pyproject.toml name what adds each of them."""
