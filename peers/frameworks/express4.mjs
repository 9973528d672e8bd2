import express from 'express4';
import { serve } from './express-app.mjs';

serve(express);
