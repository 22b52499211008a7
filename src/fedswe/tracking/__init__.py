"""Trackers: the scores of runs, sent to TensorBoard, MLflow, Weights & Biases or a service of your own."""
