;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The end of a call: whether its threads may live on, which hooks it has set, and whether all
;;; guards are still installed. And the end of the watch, once no connection is left that had a
;;; watched call.

(cl:in-package "AGENT-Q-IMAGE")

(defun settled-p (watch consent effect)
  "Whether EFFECT, of a call that is over, may stay. Stopping the call is now no more than a denial."
  (or (granted-p consent effect)
      (equal "allow" (ask watch consent effect))
      (progn (note-denial consent effect) nil)))

;;; Hooks

(defun hooks-before (watch)
  "The hooks as a call finds them; if another running call has changed one, the value before that.
Values bound by either call are its own affair."
  (let ((consent (find-if #'consent-hooks (first (watch-consents watch)))))
    (loop for entry in (hook-values)
          for before = (and consent (assoc (first entry) (consent-hooks consent) :test #'eq))
          collect (if (and before (fourth entry) (fourth before))
                      (list (first before) (second before) (own-list (third before)) t)
                      entry))))

(defun withdraw-hooks (consent)
  "Restore the hooks for definitions that the call of CONSENT has changed without a grant."
  (flet ((granted (effect)
           (or (granted-p consent effect)
               (progn (note-denial consent effect) nil))))
    (setf (consent-hooks consent)
          (loop for entry in (consent-hooks consent)
                append (if (and (fourth entry)
                                (defining-hook-p (first entry))
                                (of-all-threads-p (first entry) (symbol-value (first entry))))
                           (settle-hooks (list entry) #'granted)
                           (list entry))))))

;;; Threads

(defun living-threads (consent)
  (flet ((alive-p (thread) (internal "SB-THREAD" "THREAD-ALIVE-P" thread)))
    (let ((threads (first (consent-threads consent))))
      ;; Most are about to end.
      (loop repeat 20
            while (some #'alive-p threads)
            do (sleep 0.005))
      (remove-if-not #'alive-p threads))))

(defun effect-of-outliving (threads)
  (let ((names (mapcar #'thread-text threads)))
    (make-effect :kind "outlive" :target (first names) :detail threads
                 :words (format nil "leave ~:[~D threads~;~*a thread~] running: ~{~A~^, ~}; while no ~
                                     call of this chat runs, ~:[they~;it~] may do nothing outside of Lisp"
                                (null (rest threads)) (length threads)
                                (subseq names 0 (min 10 (length names)))
                                (null (rest threads))))))

(defun settle-threads (consent allowed)
  (let ((threads (living-threads consent)))
    (cond ((null threads))
          ((funcall allowed (effect-of-outliving threads))
           (wait-for-questions consent (first (consent-asking consent))))
          (t (setf (first (consent-outstayed consent)) (remove-if-not #'fourth (hook-values)))
             (dolist (thread threads)
               (ignore-errors (internal "SB-THREAD" "TERMINATE-THREAD" thread)))))))

(defun wait-for-questions (consent marks)
  "Wait until none of MARKS, of CONSENT-ASKING, is left there: only while CONSENT's call runs can
somebody answer. Threads that go on asking don't keep it from ending."
  (loop while (intersection marks (first (consent-asking consent)) :test #'eq)
        do (sleep 0.05)))

;;; Guards

(defun restore-guards (watch consent)
  "Reinstall guards that the call has removed, and note that it did."
  (ignore-errors (add-foreign-hooks watch))
  (dolist (guard (first (watch-guards watch)))
    (let ((name (guard-name guard)))
      (unless (or (directly "SB-INT" "ENCAPSULATED-P" name :agent-q-watch)
                  (not (fboundp name)))
        (put-guard watch guard)
        (note-denial consent (make-effect :words (format nil "take agent-q's watch off ~A"
                                                         (printed name))))))))

(defun end-call (watch consent reply)
  "Ask what remains to be asked about the call of CONSENT, which had REPLY."
  (restore-guards watch consent)
  (let ((stopped (eq (getf reply :outcome) :cancelled)))
    (labels ((allowed (effect) (and (not stopped) (settled-p watch consent effect)))
             (settle ()
               (setf (consent-hooks consent)
                     (settle-hooks (consent-hooks consent) #'allowed))))
      (unless (catch 'stopped
                (let ((*call* (consent-id consent)))
                  (settle)
                  (unless stopped
                    (settle-threads consent #'allowed)
                    ;; They may have changed some since.
                    (settle))
                  t))
        (setf stopped t)
        (settle)))))

(defun end-look (watch consent within)
  "Leave nothing behind of what ran under CONSENT, which allows nothing: no thread and no hook,
unless it is WITHIN a call or another look, which sees to that."
  (flet ((denied (effect)
           (note-denial consent effect)
           nil))
    (settle-threads consent #'denied)
    (unless within
      (restore-guards watch consent)
      (settle-hooks (consent-hooks consent) #'denied))))

(defun call-keeping-hooks (consent function arguments)
  "Call FUNCTION for a timer, a finalizer or a thread of CONSENT's call. If it starts when the call
is over or nobody is asked, or if it is told to end, it changes no hook: the end of the call won't
take care of it."
  (let ((before (and (consent-mode consent) (hook-values))))
    (unwind-protect (apply function arguments)
      (settle-hooks (or before (first (consent-outstayed consent)))
                    (lambda (effect)
                      (note-denial consent effect)
                      nil)))))

;;; Connections

(defun note-connection (watch consent)
  "Notice when the connection of CONSENT's call is closed."
  (when (and (consent-connection consent)
             (not (member (consent-connection consent) (first (watch-connections watch))
                          :test #'eq)))
    (push (consent-connection consent) (first (watch-connections watch)))
    ;; Its client may have been loaded after the watch.
    (hear-of-closed-connections)
    (add-guards watch)))

(defun hear-of-closed-connections ()
  "Have the clients call us for each closed connection."
  ;; Done before there are any calls: one that ran at the same time would be blamed for it.
  (dolist (client '(:swank :slynk))
    (let ((hook (client-symbol-named client "*CONNECTION-CLOSED-HOOK*")))
      (when (and hook (boundp hook))
        (pushnew 'forget-closed-connections (symbol-value hook))))))

(defun forget-closed-connections (&rest ignored)
  "Remove the watch when no connection is left that had watched calls."
  (declare (ignore ignored))
  (let ((leave (optional-function "AGENT-Q-IMAGE" "LEAVE-WATCH")))
    (when leave (ignore-errors (funcall leave)))))

(defun leave-watch-if-alone (watch)
  "The same for WATCH, once it has no calls."
  (let ((open (append (client-value :swank "*CONNECTIONS*") (client-value :slynk "*CONNECTIONS*"))))
    (when (and (null (first (watch-consents watch)))
               (or (watch-leaving watch)
                   (and (first (watch-connections watch))
                        (null (intersection (first (watch-connections watch)) open
                                            :test #'eq)))))
      (setf (first (watch-connections watch)) '())
      (remove-watch watch))))
