# GRPO on gsm8k.jsonl (rows of `question` and `answer`) from the model directory model/.
rlvr prompts gsm8k.jsonl --out prompts
rlvr train --model model --prompts prompts --eval-every 0 --out run
