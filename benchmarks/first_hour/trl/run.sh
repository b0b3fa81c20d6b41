accelerate launch train_grpo.py
