#!/usr/bin/env python3
import json, sys
turns = json.load(sys.stdin)['turns']
call = {'verb': 'finish', 'arguments': {'answer': 'so'}} if len(turns) > 1 else {'verb': 'run', 'arguments': {'tool': 'look', 'args': []}}
print(json.dumps({'text': 'hm', 'calls': [call], 'stop': 'calls', 'content': {'mine': len(turns)}}))
