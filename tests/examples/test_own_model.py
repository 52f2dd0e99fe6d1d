"""The example that trains a model that l5kit does not know."""

from l5kit.planning.checkpoint import read_checkpoint


def test_a_model_of_a_user_is_trained_and_tested(train_little, tmp_path, split_city):
    printed = train_little("own_model.py", "--data", split_city)
    assert "1.2 s   predicted" in printed
    kept = read_checkpoint(tmp_path / "out" / "training-1" / "vector_planner.safetensors")
    assert kept.model_class == "own_model.PastPlanner"
